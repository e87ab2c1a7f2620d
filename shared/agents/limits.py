"""The limits of one episode. A limit that is met is announced, and the obedient answer to it is valid (loop.py)."""

from typing import Annotated

from pydantic import Field, model_validator

from shared.config import Config

Count = Annotated[int, Field(strict=True, ge=1)]
Seconds = Annotated[float, Field(gt=0)]


class Limits(Config):
    """What one episode may use. Tokens are those of the agent's own tokenizer; times are in seconds.

    `max_turns`: turns up to and with the one that should answer; if that one calls instead, the calls are not run, and
    one more turn may answer. `max_new_tokens`: of one turn. `max_context_tokens`: of the whole trajectory.
    `max_calls`: that are run in the episode; `max_parallel_calls`: in one turn; those beyond are answered `limit`.
    `tool_timeout_s`: of one call; None where the tools keep deadlines of their own. `deadline_s`: after it no call is
    started, and none runs any more but those with deadlines of their own; one wait for the sampler may not take longer
    either, but that is a fault of the sampler, not a limit.
    """

    max_turns: Count = 8
    max_new_tokens: Count = 512
    max_context_tokens: Count = 4096
    max_calls: Count = 16
    max_parallel_calls: Count = 8
    tool_timeout_s: Seconds | None = 30.0
    deadline_s: Seconds = 300.0

    @model_validator(mode="after")
    def _a_turn_fits(self) -> "Limits":
        if self.max_new_tokens >= self.max_context_tokens:
            raise ValueError("max_new_tokens must be less than max_context_tokens")
        return self


class ExecutorLimits(Limits):
    """The limits of one invocation; its time is less than any deadline at which an invocation counts as failed."""

    deadline_s: Seconds = 90.0
