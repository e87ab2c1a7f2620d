"""What an executor server is configured with."""

from pydantic import Field, model_validator

from shared.agents.limits import ExecutorLimits, Seconds
from shared.serving.config import ServerConfig


class ExecutorConfig(ServerConfig):
    """See `ServerConfig` for what both roles share."""

    port: int = Field(8082, ge=1, le=65535)
    limits: ExecutorLimits = ExecutorLimits()
    invocation_deadline_s: Seconds = 120.0
    """An invocation that is not sampled by then is given up, and leaves no trajectory."""

    @model_validator(mode="after")
    def _limits_come_first(self) -> "ExecutorConfig":
        if self.limits.deadline_s >= self.invocation_deadline_s:
            raise ValueError("limits.deadline_s must be less than invocation_deadline_s: a limit is no failure")
        return self
