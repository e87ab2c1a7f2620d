"""Few demonstrations, gone over in passes, under the instructions that a rollout has."""

import random
from collections import Counter

from shared.policy.tokenizer import load_tokenizer
from shared.policy.warmup.conversation import Conversation
from shared.policy.warmup.demonstrations import in_passes, limited
from shared.policy.warmup.run import warm_up
from shared.policy.warmup.seat import take_seat


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


def test_a_demonstration_begins_as_a_rollout_does(taught, model_folder, monkeypatch):
    monkeypatch.setattr(type(taught), "system_prompt", lambda self, role: f"1 {role}")
    tokenizer = load_tokenizer(model_folder)
    seat = take_seat(taught, "planner", taught.curriculum("planner"), tokenizer)
    told = seat.chat.start("1 planner", "2")
    assert told != seat.chat.start("", "2")
    assert seat.demonstration(random.Random(0)).token_ids[: len(told)] == told


def test_a_warm_up_takes_both_and_a_pace(taught, model_folder, tmp_path):
    result = warm_up(
        taught, "planner", tmp_path / "out", model_folder=model_folder, steps=2, demonstrations=4, pace={"batch": 2}
    )
    assert (result["steps"], result["demonstrations"], result["smoothed_lookup"]) == (2, 4, 0.0)
