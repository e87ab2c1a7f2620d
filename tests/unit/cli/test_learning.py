"""NOT LEARNING, SATURATED, LEARNING."""

import pytest

from shared.learning import learning


def steps(n: int, dead: float, correct: float) -> list[dict[str, float]]:
    return [{"groups": 8.0, "groups_dead": dead, "correct_mean": correct}] * n


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
    assert learning(steps(n, dead, correct)) == expected


def test_one_live_stretch_within_the_window_is_enough():
    assert learning(steps(5, 8.0, 0.0) + steps(5, 2.0, 0.3)) == "LEARNING"


def test_only_the_last_ten_count():
    assert learning(steps(30, 0.0, 0.3) + steps(10, 8.0, 0.0)) == "NOT LEARNING"
