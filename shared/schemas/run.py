"""A run: one co-training, declared once, and never changed."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from shared.ids import Name
from shared.schemas.base import Reason, Role, Step, Wire

RunState = Literal["declared", "running", "paused", "draining", "finished", "failed", "purging"]
Positive = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Seconds = Annotated[float, Field(gt=0, le=1e7, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Term = Literal["protocol", "efficiency", "diversity"]
TERMS: tuple[Term, ...] = ("protocol", "efficiency", "diversity")
"""The planner's optional reward terms; each is a coefficient of PlannerReward, and a score `r_<term>` of a rollout."""


class Budget(Wire):
    """What costs a rollout its r_efficiency: all of it where this much is used. What is unset costs nothing.

    `calls`: that the planner wrote; `tokens`: that it sampled; `seconds`: of the whole rollout, by the clock.
    """

    calls: Positive | None = None
    tokens: Positive | None = None
    seconds: Seconds | None = None


class PlannerReward(Wire):
    """R_M = format * r_format + correct * r_correct, gated by the planner's own format (M-GRPO, Eq. 4).

    The optional terms are ours, and off at 0 (m-grpo.md, section 2): + protocol * r_protocol
    + r_correct * (efficiency * r_efficiency + diversity * r_diversity). `budget` goes with efficiency.
    """

    format: Weight = 0.1
    correct: Weight = 0.9
    protocol: Weight = 0.0
    efficiency: Weight = 0.0
    diversity: Weight = 0.0
    budget: Budget | None = None

    @property
    def terms(self) -> tuple[Term, ...]:
        """The optional terms that are on."""
        return tuple(term for term in TERMS if getattr(self, term))

    @model_validator(mode="after")
    def _consistent(self) -> "PlannerReward":
        total = self.format + self.correct + self.protocol + self.efficiency + self.diversity
        if abs(total - 1) > 1e-9:
            raise ValueError(f"the planner's reward coefficients must sum to 1, not {total:g}")
        if self.terms and self.correct <= self.protocol:
            raise ValueError("correct must exceed protocol: else a right answer may be worth no more than a wrong one")
        if self.efficiency and self.budget in (None, Budget()):
            raise ValueError("efficiency needs a budget of calls, tokens or seconds")
        if self.budget is not None and not self.efficiency:
            raise ValueError("a budget goes with efficiency, which is 0")
        return self


class ExecutorReward(Wire):
    """R_S = format * r_format + correct_main * r_correct_main + expert * r_expert (M-GRPO, Eq. 5)."""

    format: Weight = 0.1
    correct_main: Weight = 0.4
    expert: Weight = 0.5

    @model_validator(mode="after")
    def _sums_to_one(self) -> "ExecutorReward":
        if abs(self.format + self.correct_main + self.expert - 1) > 1e-9:
            raise ValueError("the executor's reward coefficients must sum to 1")
        return self


class RunSpec(Wire):
    """What a run is. `steps` is T; steps count from 1; `staleness` 0 is strictly in turn."""

    steps: Positive
    rollouts_per_group: Annotated[int, Field(strict=True, ge=2, le=1024)] = 8
    groups_per_step: Annotated[int, Field(strict=True, ge=1, le=4096)] = 8
    min_rollouts: Annotated[int, Field(strict=True, ge=2)] = 2
    d_max: Annotated[int, Field(strict=True, ge=1, le=1024)] = 8
    staleness: Annotated[int, Field(strict=True, ge=0, le=64)] = 1
    trained_roles: tuple[Role, ...] = ("planner", "executor")
    cutter: Literal["group", "arrival"] = "group"
    alignment: Literal["copies", "expected", "none"] = "copies"
    planner_reward: PlannerReward = PlannerReward()
    executor_reward: ExecutorReward = ExecutorReward()
    rollout_deadline_s: Seconds = 600.0
    score_deadline_s: Seconds = 300.0
    orphan_deadline_s: Seconds = 3600.0
    lease_ttl_s: Seconds = 30.0
    max_attempts: Positive = 5
    seed: Step = 0

    @model_validator(mode="after")
    def _consistent(self) -> "RunSpec":
        if self.min_rollouts > self.rollouts_per_group:
            raise ValueError("min_rollouts must not exceed rollouts_per_group")
        if len(set(self.trained_roles)) != len(self.trained_roles) or not self.trained_roles:
            raise ValueError("trained_roles must name each role at most once, and one at least")
        if (self.cutter == "arrival") != (self.alignment == "none"):
            raise ValueError("cutter 'arrival' goes with alignment 'none', and only with it")
        return self


class RunView(Wire):
    """A run as the service sees it."""

    run: Name
    spec: RunSpec
    state: RunState
    reason: str | None = None


class RoleStatus(Wire):
    """Where one role's stream stands."""

    epoch: Step
    acked_step: Step
    live_step: Step
    worker: str | None
    ready: Step
    waiting: Step
    dead: Step


class Wait(Wire):
    """Who waits for whom, and since when. `stalled`: for longer than the service takes to be normal.

    `who` is a role, or `run`; `whom` is a role, `trainer` or `operator`. `count` is of groups or deliveries; `until` is
    the deadline that ends the wait, where it has one. `text` says the same to people.
    """

    code: Reason
    who: str
    whom: str
    step: Step | None = None
    count: Step | None = None
    since: str
    until: str | None = None
    stalled: bool
    text: str


class RunStatus(Wire):
    """`open_through`: the highest step of which groups and attempts may be started now (m-grpo.md, section 6)."""

    run: Name
    state: RunState
    reason: str | None = None
    open_through: Step
    groups: dict[str, int] = {}
    rollouts: dict[str, int] = {}
    trajectories: dict[str, int] = {}
    roles: dict[Role, RoleStatus]
    waiting_for: tuple[str, ...] = ()
    waits: tuple[Wait, ...] = ()
    bytes_received: int = 0
