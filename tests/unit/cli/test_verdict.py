"""NOT LEARNING, SATURATED, LEARNING."""

import pytest

from shared.cli.demo.verdict import verdict
from shared.schemas.stream import StepStatistics


def steps(n: int, dead: float, correct: float) -> list[StepStatistics]:
    return [
        StepStatistics(
            step=i + 1,
            role="planner",
            epoch=1,
            outcome="trained",
            updates=i,
            acked_at="2026-01-01T00:00:00Z",
            statistics={"groups": 8.0, "groups_dead": dead, "correct_mean": correct},
        )
        for i in range(n)
    ]


@pytest.mark.parametrize(
    ("n", "dead", "correct", "expected"),
    [
        (9, 8.0, 0.0, "LEARNING"),
        (10, 8.0, 0.0, "NOT LEARNING"),
        (10, 8.0, 0.49, "NOT LEARNING"),
        (10, 8.0, 0.5, "SATURATED"),
        (10, 7.0, 0.0, "LEARNING"),
        (10, 7.3, 0.0, "NOT LEARNING"),
    ],
)
def test_a_window_of_ten_steps_decides(n: int, dead: float, correct: float, expected: str):
    assert verdict(steps(n, dead, correct)) == expected


def test_one_live_stretch_within_the_window_is_enough():
    assert verdict(steps(5, 8.0, 0.0) + steps(5, 2.0, 0.3)) == "LEARNING"


def test_only_the_last_ten_count():
    assert verdict(steps(30, 0.0, 0.3) + steps(10, 8.0, 0.0)) == "NOT LEARNING"
