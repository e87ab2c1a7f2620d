"""Groups, rollouts and trajectories as the sync service knows them: ids and scalars, never text or tokens."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from shared.ids import Id, Name
from shared.schemas.base import MAX_INTEGER, Binary, PolicyVersion, Reason, Step, Text, Unit, Wire

GroupState = Literal["open", "complete", "discarded"]
ScoringState = Literal["pending", "sealed"]
RolloutState = Literal["reported", "aborted", "late"]
TrajectoryState = Literal["awaited", "scored", "unscored", "trained", "dropped", "late", "orphan"]


class GroupOpen(Wire):
    """Open the group of one task for place `index` of step `step`; its K slots are then owed."""

    run: Name
    step: Annotated[int, Field(strict=True, ge=1, le=MAX_INTEGER)]
    index: Step
    task_id: Text


class RolloutReport(Wire):
    """The last attempt of one slot. Reported with its rewards, or aborted with a reason; final either way.

    The three optional scores go with the optional terms of the planner's reward: null where the run has no such term.
    """

    run: Name
    group: Id
    slot: Step
    status: Literal["reported", "aborted"] = "reported"
    reason: Reason | None = None
    planner_trajectory: Id | None = None
    r_format: Binary | None = None
    r_correct: Unit | None = None
    r_protocol: Unit | None = None
    r_efficiency: Unit | None = None
    r_diversity: Unit | None = None
    executor_trajectories: Annotated[tuple[Id, ...], Field(max_length=1024)] = ()
    tokens: Step = 0
    version: PolicyVersion | None = None

    @model_validator(mode="after")
    def _whole(self) -> "RolloutReport":
        rewards = (self.planner_trajectory, self.r_format, self.r_correct, self.version)
        if self.status == "reported" and (None in rewards or self.reason is not None):
            raise ValueError(
                "a reported rollout needs planner_trajectory, r_format, r_correct and version, and no reason"
            )
        rewards += (self.r_protocol, self.r_efficiency, self.r_diversity)
        if self.status == "aborted" and (self.reason is None or any(r is not None for r in rewards)):
            raise ValueError("an aborted rollout needs a reason, and has no rewards")
        if len(set(self.executor_trajectories)) != len(self.executor_trajectories):
            raise ValueError("executor_trajectories names an id twice")
        return self


class TrajectoryReport(Wire):
    """One finished invocation of the executor: its own scores, or unscored with a reason."""

    run: Name
    rollout: Id
    status: Literal["scored", "unscored"] = "scored"
    reason: Reason | None = None
    r_format: Binary | None = None
    r_expert: Unit | None = None
    tokens: Annotated[int, Field(strict=True, ge=1, le=MAX_INTEGER)]
    version: PolicyVersion

    @model_validator(mode="after")
    def _whole(self) -> "TrajectoryReport":
        if self.status == "scored" and (self.r_format is None or (self.r_format == 1 and self.r_expert is None)):
            raise ValueError("a scored trajectory needs r_format, and r_expert unless r_format is 0")
        if (self.status == "unscored") != (self.reason is not None):
            raise ValueError("an unscored trajectory needs a reason, a scored one has none")
        return self


class Accepted(Wire):
    """`accepted` is false where the thing came late: it is recorded, and not trained on."""

    accepted: bool
    state: str


class GroupItem(Wire):
    """One item of `/groups:batch`."""

    id: Id
    body: GroupOpen


class RolloutItem(Wire):
    """One item of `/rollouts:batch`."""

    id: Id
    body: RolloutReport


class TrajectoryItem(Wire):
    """One item of `/trajectories:batch`."""

    id: Id
    body: TrajectoryReport


class GroupBatch(Wire):
    """Up to 512 groups to open in one request."""

    items: Annotated[tuple[GroupItem, ...], Field(min_length=1, max_length=512)]


class RolloutBatch(Wire):
    """Up to 512 rollouts in one request."""

    items: Annotated[tuple[RolloutItem, ...], Field(min_length=1, max_length=512)]


class TrajectoryBatch(Wire):
    """Up to 512 trajectories in one request."""

    items: Annotated[tuple[TrajectoryItem, ...], Field(min_length=1, max_length=512)]


class ItemResult(Wire):
    """The status of one item of a batch: 200 with `accepted`, or the problem of that item alone."""

    id: Id
    status: int
    accepted: bool | None = None
    problem: dict | None = None


class BatchResult(Wire):
    """A status for each item, in the order of the request."""

    items: tuple[ItemResult, ...]


class GroupView(Wire):
    """A group and its slots, for a restarted planner and for the dashboard."""

    group: Id
    run: Name
    step: Step
    index: Step
    task_id: str
    state: GroupState
    scoring: ScoringState
    reason: str | None = None
    final_slots: tuple[int, ...] = ()


class GroupResult(Wire):
    """The status of one item of `/groups:batch`: 200 with the group, or the problem of that item alone."""

    id: Id
    status: int
    group: GroupView | None = None
    problem: dict | None = None


class GroupBatchResult(Wire):
    """A status for each item, in the order of the request."""

    items: tuple[GroupResult, ...]
