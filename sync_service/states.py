"""The state machines, as tables. A move that is not in its table is a 409 that names the current state.

The tables are the law for the statements, too: each moves a row only from a state that its table names, and the
database refuses a state that no table has. What has no way out is final.
"""

from collections.abc import Mapping

from shared.errors import InvalidTransition

Machine = Mapping[str, frozenset[str]]


def _machine(**moves: str) -> Machine:
    return {state: frozenset(targets.split()) for state, targets in moves.items()}


RUN = _machine(
    declared="running draining failed",
    running="paused draining failed",
    paused="running draining failed",
    draining="finished failed",
    finished="draining purging",  # draining by a resume alone: the last checkpoint did not hold the last steps
    failed="purging",
    purging="",  # the reaper deletes it, and then there is no such run
)
GROUP = _machine(open="complete discarded", complete="", discarded="")
SCORING = _machine(pending="sealed", sealed="")
ROLLOUT = _machine(reported="", aborted="", late="")
TRAJECTORY = _machine(
    awaited="scored unscored late",  # named by a rollout, submitted by nobody yet
    scored="trained dropped late orphan",
    unscored="dropped late orphan",  # a row without its score is never trained on
    trained="scored",  # by a resume from an earlier step
    dropped="scored unscored",  # likewise, and only where its trainer dropped it
    late="",
    orphan="",
)
DELIVERY = _machine(
    waiting="ready",
    ready="leased",
    leased="acked ready dead",
    acked="ready",
    dead="ready acked",
)


def check(machine: Machine, what: str, current: str, target: str) -> None:
    """InvalidTransition where `machine` has no move from `current` to `target`."""
    if target not in machine[current]:
        raise InvalidTransition(f"{what} is {current} and cannot become {target}", state=current)
