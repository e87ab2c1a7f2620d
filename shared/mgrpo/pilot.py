"""D_max from a pilot of the warm-up policy (M-GRPO, arXiv 2511.13288, section 3.3; `d_max = "auto"`)."""

import math
from collections.abc import Sequence

from shared.errors import InvalidInput

PILOT_ROLLOUTS = 512
"""Fewer rollouts say too little of a 99th percentile."""


def smallest_d_max(calls: Sequence[int], coverage: float = 0.99, max_calls: int | None = None) -> int:
    """The smallest integer D with P(d_k <= D) >= `coverage`, at least 1 and at most the limit on calls.

    `calls` holds d_k of every rollout of the pilot, those without a call included (512 at least, or InvalidInput).
    """
    if len(calls) < PILOT_ROLLOUTS:
        raise InvalidInput(f"a pilot needs at least {PILOT_ROLLOUTS} rollouts, not {len(calls)}")
    if not 0 < coverage <= 1:
        raise InvalidInput(f"coverage is in (0, 1], not {coverage}")
    covered = math.ceil(coverage * len(calls) - 1e-9)  # 0.07 * 600 is 42.00000000000001
    d_max = max(1, sorted(calls)[covered - 1])
    return d_max if max_calls is None else min(d_max, max_calls)
