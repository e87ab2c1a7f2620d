"""What a planner server is configured with."""

from pathlib import Path

from pydantic import Field

from shared.agents.limits import Limits, Seconds
from shared.config import Url
from shared.serving.config import ServerConfig


class PlannerLimits(Limits):
    """The limits of one rollout. A delegation has its own deadline, `invocation_deadline_s`, and no tool timeout.

    So `deadline_s` cuts no delegation that runs: an executor that hangs is a fault, and nobody's reward.
    """

    tool_timeout_s: None = None
    deadline_s: Seconds = 500.0


class PlannerConfig(ServerConfig):
    """See `ServerConfig` for what both roles share."""

    port: int = Field(8081, ge=1, le=65535)
    limits: PlannerLimits = PlannerLimits()
    executor_url: Url
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
