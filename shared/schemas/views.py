"""Details and lists of the sync service, for operators and viewers."""

from typing import Annotated

from pydantic import Field

from shared.ids import Id, Name
from shared.schemas.base import Binary, PolicyVersion, Reason, Role, Step, Unit, Wire
from shared.schemas.rollout import RolloutState, TrajectoryState
from shared.schemas.stream import DeliveryState


class RolloutView(Wire):
    """A rollout as recorded; `multiplicity` or `fate_reason` is what became of its planner trajectory."""

    id: Id
    run: Name
    group: Id
    slot: Step
    state: RolloutState
    reason: str | None
    planner_trajectory: Id | None
    r_format: Binary | None
    r_correct: Unit | None
    r_protocol: Unit | None = None
    r_efficiency: Unit | None = None
    r_diversity: Unit | None = None
    executor_trajectories: tuple[Id, ...]
    tokens: Step
    version: PolicyVersion | None
    received_at: str
    multiplicity: Step | None
    fate_reason: str | None


class TrajectoryRecord(Wire):
    """An executor trajectory as recorded. `awaited`: a rollout names it, and nobody has submitted it yet."""

    id: Id
    run: Name
    rollout: Id
    group: Id | None
    state: TrajectoryState
    reason: str | None
    r_format: Binary | None
    r_expert: Unit | None
    tokens: Step | None
    version: PolicyVersion | None
    received_at: str | None
    step: Step | None
    multiplicity: Step | None


class DeliveryRow(Wire):
    """One delivery in a list."""

    id: Id
    run: Name
    role: Role
    step: Step
    state: DeliveryState
    epoch: Step | None
    attempts: Step
    error: str | None
    outcome: str | None
    reason: str | None
    acked_at: str | None


class PolicyRow(Wire):
    """One registered version. `confirmed_at` is null until the role's samplers have loaded it."""

    role: Role
    epoch: Step
    step: Step
    updates: Step
    checksum: str
    worker: str
    confirmed_at: str | None
    superseded: bool


class WorkerRow(Wire):
    """What a worker last said of itself, and when. `lost`: not seen for long, and it did not say that it drains."""

    worker: Name
    role: Role
    url: str
    device: str
    version: PolicyVersion | None
    doing: str
    draining: bool
    seen_at: str
    lost: bool


class AuditRow(Wire):
    """One write of an operator. `key` names the key that did it; null in the loopback mode without keys."""

    id: Annotated[int, Field(strict=True, ge=1)]
    at: str
    key: str | None
    action: Reason
    target: str
    run: Name | None
    details: dict[str, int | str]
