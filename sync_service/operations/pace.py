"""How fast each role goes, and for how much of the time its trainer has nothing: from when steps were leased and acked.

All of it is of the last acked steps, as they were acked for good: a step that was trained again after a resume counts
once, and a failed attempt counts as idle, for nothing of it is in the weights.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median

from shared.schemas.base import Role
from shared.schemas.verdict import Pace
from sync_service.store.recent import Acked


def pace(acked: Sequence[Acked], acked_step: int, leased_at: datetime | None, until: datetime | None) -> Pace:
    """Of one role. `leased_at`: since when it has a delivery now, if so; `until`: now, None for a run that rests."""
    acked = sorted(acked, key=lambda step: step.acked_at)
    between = [_seconds(a.acked_at, b.acked_at) for a, b in pairwise(acked)]
    return Pace(
        acked_step=acked_step,
        step_s=median(between) if between else None,
        training_s=_median(acked, "leased_at", "acked_at"),
        waiting_s=_median(acked, "ready_at", "leased_at"),
        idle=_idle(acked, leased_at, until),
    )


def _median(acked: Sequence[Acked], start: str, end: str) -> float | None:
    spans = [(getattr(step, start), getattr(step, end)) for step in acked]
    seconds = [_seconds(a, b) for a, b in spans if a is not None and b is not None]
    return median(seconds) if seconds else None


def _idle(acked: Sequence[Acked], leased_at: datetime | None, until: datetime | None) -> float | None:
    """The share, and with it the time since the last ack, where the run goes on."""
    spans = [(a.acked_at, b.leased_at, b.acked_at) for a, b in pairwise(acked)]
    if acked and until is not None:
        spans.append((acked[-1].acked_at, leased_at, until))
    whole = sum(_seconds(start, end) for start, _, end in spans)
    if not whole:
        return None
    idle = sum(_seconds(start, min(leased or end, end)) for start, leased, end in spans)
    return min(1.0, idle / whole)


def _seconds(start: datetime, end: datetime) -> float:
    """Never negative: what was leased before the ack that it follows was waited for by nobody."""
    return max(0.0, (end - start).total_seconds())


def seconds_left(paces: Mapping[Role, Pace], remaining: Mapping[Role, int]) -> float | None:
    """Until the slowest role has acked what remains of it; None where one's pace is not known."""
    left = []
    for role, steps in remaining.items():
        if steps:
            step_s = paces[role].step_s
            if step_s is None:
                return None
            left.append(steps * step_s)
    return max(left, default=0.0)
