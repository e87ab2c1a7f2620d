"""The expert score of an invocation: asked in the background, once for each trajectory, and never guessed."""

import asyncio
import math
from concurrent.futures import Executor

import structlog

from shared.environments.base import Environment, Trace
from shared.errors import UserError

log = structlog.get_logger()

RETRY_S = 1.0
LONGEST_RETRY_S = 30.0


async def expert_score(
    environment: Environment, trajectory: str, trace: Trace, deadline_s: float, threads: Executor
) -> float | None:
    """r_expert in [0, 1], asked in one of `threads`; None where the judge failed until `deadline_s` was over.

    A failure of the judge is nobody's reward, so it is retried. A value that is no reward at all is a mistake in the
    environment: UserError names it, and the score is asked again after a restart.
    """
    pause, loop = RETRY_S, asyncio.get_running_loop()
    try:
        async with asyncio.timeout(deadline_s):
            while True:
                try:
                    value = await loop.run_in_executor(threads, environment.expert_score, trace)
                except Exception as error:  # noqa: BLE001 the judge is a user's code, and may call anything
                    log.warning("judge-failed", trajectory=trajectory, environment=environment.name, error=repr(error))
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_RETRY_S)
                else:
                    return _checked(environment, trajectory, value)
    except TimeoutError:
        return None


def _checked(environment: Environment, trajectory: str, value: object) -> float:
    if isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= 1:
        return float(value)
    raise UserError(
        f"environment {environment.name}: expert_score of trajectory {trajectory} is {value!r}; "
        "a reward is a finite number in [0, 1]"
    )
