"""What a planner server is configured with."""

from pathlib import Path

from pydantic import Field, model_validator

from shared.agents.limits import ExecutorLimits, Limits, Seconds
from shared.config import Url
from shared.environments.base import Team
from shared.serving.config import ServerConfig

OF_A_PAIR = ("executor_url", "executor_key_file", "invocation_deadline_s", "invocation_attempts")
"""What is about the executor's server: the other teams have none."""


class PlannerLimits(Limits):
    """The limits of one rollout. A delegation has its own deadline, `invocation_deadline_s`, and no tool timeout.

    So `deadline_s` cuts no delegation that runs: an executor that hangs is a fault, and nobody's reward. A model that
    has the tools itself (team `single`) needs `tool_timeout_s`.
    """

    tool_timeout_s: Seconds | None = None
    deadline_s: Seconds = 500.0


class PlannerConfig(ServerConfig):
    """See `ServerConfig` for what both roles share."""

    port: int = Field(8081, ge=1, le=65535)
    team: Team = "pair"
    """Who has the tools, and who answers delegations: team.py."""
    limits: PlannerLimits = PlannerLimits()
    executor_limits: ExecutorLimits = ExecutorLimits()
    """Of one delegation in the team `unified`, where no executor's server has limits of its own."""
    executor_url: Url | None = None
    """Where the executor's server is; a pair has one."""
    executor_key_file: Path | None = None
    """Where the key for the executor's server is; else $TANDEM_EXECUTOR_KEY or $TANDEM_EXECUTOR_KEY_FILE."""
    max_concurrent_rollouts: int = Field(64, ge=1)
    """Rollouts in progress at once; evaluations have as many places of their own."""
    attempts_per_slot: int = Field(3, ge=1)
    """How often a slot is tried, each time under a new rollout id, before it is submitted as aborted."""
    invocation_deadline_s: Seconds = 150.0
    """How long one request to the executor may take; more than the executor's own deadline."""
    invocation_attempts: int = Field(3, ge=1)
    """How often a delegation is sent, under the same id, before the executor counts as failed."""

    @model_validator(mode="after")
    def _nothing_is_ignored(self) -> "PlannerConfig":
        if self.team == "pair" and self.executor_url is None:
            raise ValueError("executor_url is missing: a pair has an executor's server")
        no_use = () if self.team == "pair" else OF_A_PAIR
        no_use += () if self.team == "unified" else ("executor_limits",)
        for name in no_use:
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} has no use in the team {self.team}")
        if self.team == "single" and self.limits.tool_timeout_s is None:
            raise ValueError("the team single runs the tools itself: set limits.tool_timeout_s, for example to 30")
        if self.team != "single" and self.limits.tool_timeout_s is not None:
            raise ValueError(f"limits.tool_timeout_s has no use in the team {self.team}: delegations have other limits")
        return self
