"""Few demonstrations, gone over in passes, under the instructions that a rollout has."""

import random
from collections import Counter

from shared.policy.warmup.conversation import Conversation
from shared.policy.warmup.demonstrations import in_passes, instructed, limited
from shared.policy.warmup.run import warm_up


def test_every_pass_is_over_all_of_them_in_an_order_of_its_own():
    few = [Conversation(str(number), ()) for number in range(8)]
    draw, rng = in_passes(few), random.Random(0)
    passes = [[draw(rng).user for _ in few] for _ in range(3)]
    assert all(Counter(one) == Counter(map(str, range(8))) for one in passes)
    assert len({tuple(one) for one in passes}) == 3


def test_nothing_else_is_learned(taught):
    curriculum = limited(taught.curriculum("planner"), 3, seed=5)
    assert (curriculum.exercise, curriculum.lookup) == (None, None)
    rng = random.Random(1)
    drawn = [curriculum.demonstration(rng) for _ in range(9)]
    assert Counter(drawn[:3]) == Counter(drawn[3:6]) == Counter(drawn[6:])
    again = limited(taught.curriculum("planner"), 3, seed=5)
    assert Counter(again.demonstration(rng) for _ in range(3)) == Counter(drawn[:3])


def test_a_demonstration_begins_as_a_rollout_does(taught, monkeypatch):
    monkeypatch.setattr(type(taught), "system_prompt", lambda self, role: f"You are the {role}.")
    curriculum = instructed(taught.curriculum("planner"), taught, "planner")
    assert curriculum.demonstration(random.Random(0)).system == "You are the planner."


def test_a_warm_up_takes_both_and_a_pace(taught, model_folder, tmp_path):
    result = warm_up(
        taught, "planner", tmp_path / "out", model_folder=model_folder, steps=2, demonstrations=4, pace={"batch": 2}
    )
    assert (result["steps"], result["demonstrations"], result["smoothed_lookup"]) == (2, 4, 0.0)
