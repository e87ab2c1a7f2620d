"""How fast a role goes: medians, and the share of the time in which its trainer has nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from sync_service.operations.duration import duration
from sync_service.operations.pace import pace
from sync_service.store.recent import Acked


def at(seconds: float) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def acked(step: int, ready: float, leased: float, end: float) -> Acked:
    return Acked("executor", step, at(ready), at(leased), at(end), {}, {})


STEPS = [acked(1, 0, 0, 10), acked(2, 11, 14, 20), acked(3, 21, 22, 50)]


def test_spans_are_medians_and_idle_is_a_share_of_the_time_between_acks() -> None:
    found = pace(STEPS, 3, None, None)
    assert (found.step_s, found.training_s, found.waiting_s) == (20.0, 10.0, 1.0)
    assert found.idle == pytest.approx((4 + 2) / 40)


@pytest.mark.parametrize(("leased", "idle"), [(None, 56 / 90), (60.0, 16 / 90), (40.0, 6 / 90)])
def test_the_time_since_the_last_ack_counts(leased: float | None, idle: float) -> None:
    since = None if leased is None else at(leased)
    assert pace(STEPS, 3, since, at(100)).idle == pytest.approx(idle)


def test_a_step_that_was_never_leased_is_idle_and_one_alone_says_nothing_of_steps() -> None:
    skipped = Acked("executor", 2, at(5), None, at(20), {}, {})
    assert pace([STEPS[0], skipped], 2, None, None).idle == 1.0
    alone = pace(STEPS[:1], 1, None, None)
    assert (alone.step_s, alone.training_s, alone.idle) == (None, 10.0, None)
    assert pace([], 0, None, at(5)).idle is None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.42, "0.4 s"), (94, "94 s"), (300, "5 min"), (12000, "3 h 20 min"), (10800, "3 h"), (439200, "5 d 2 h")],
)
def test_a_duration_is_said_as_people_say_it(seconds: float, said: str) -> None:
    assert duration(seconds) == said
