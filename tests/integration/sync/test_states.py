"""The state machines are those of the design, move by move."""

import pytest

from shared.errors import InvalidTransition
from sync_service import states

DESIGN = {
    "RUN": """
        declared running, declared draining, declared failed, running paused, running draining, running failed,
        paused running, paused draining, paused failed, draining finished, draining failed,
        finished draining, finished purging, failed purging""",
    "GROUP": "open complete, open discarded",
    "SCORING": "pending sealed",
    "ROLLOUT": "",
    "TRAJECTORY": """
        awaited scored, awaited unscored, awaited late, scored trained, scored dropped, scored late, scored orphan,
        unscored dropped, unscored late, unscored orphan, trained scored, dropped scored, dropped unscored""",
    "DELIVERY": """
        waiting ready, ready leased, leased acked, leased ready, leased dead, acked ready, dead ready, dead acked""",
}


@pytest.mark.parametrize("name", DESIGN)
def test_a_machine_has_the_moves_of_the_design_and_no_others(name: str) -> None:
    machine = getattr(states, name)
    designed = {tuple(move.split()) for move in DESIGN[name].split(",") if move.strip()}
    assert {(current, target) for current in machine for target in machine[current]} == designed
    for current in machine:
        for target in machine:
            if (current, target) in designed:
                states.check(machine, "it", current, target)
            else:
                with pytest.raises(InvalidTransition, match=current):
                    states.check(machine, "it", current, target)
