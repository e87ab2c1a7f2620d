"""A role's deliveries are one ordered stream; one trainer holds it under an epoch."""

from typing import Annotated, Literal

from pydantic import Field, FiniteFloat, StringConstraints

from shared.ids import Id, Name
from shared.schemas.base import MAX_INTEGER, Binary, PolicyVersion, Reason, Step, Text, Unit, Wire

DeliveryState = Literal["waiting", "ready", "leased", "acked", "dead"]
Fate = Annotated[int, Field(strict=True, ge=1, le=MAX_INTEGER)] | Reason
"""What became of a trajectory: its multiplicity if it was trained on, else the reason why not."""
Label = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9<>=+._/-]{1,64}$")]
"""The name of a statistic or of a bar of a histogram."""
Checksum = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class Ack(Wire):
    """One step is done. `fates` names every trajectory of the delivery that this role owns."""

    epoch: Step
    step: Annotated[int, Field(strict=True, ge=1, le=MAX_INTEGER)]
    outcome: Literal["trained", "skipped"]
    reason: Reason | None = None
    updates: Step
    fates: dict[Id, Fate]
    statistics: dict[Label, FiniteFloat] = {}
    histograms: dict[Label, dict[Label, Step]] = {}


class ResumeRequest(Wire):
    """Take the stream from `step` on: everything up to it is acked, everything after it is ready again."""

    worker: Name
    step: Step
    updates: Step
    checksum: Checksum
    pending_ack: Ack | None = None


class Resumed(Wire):
    """The stream is held under `epoch`."""

    epoch: Step


class LeaseRequest(Wire):
    """Ask for the next delivery, and wait for it up to `wait_s`."""

    worker: Name
    epoch: Step
    wait_s: Annotated[float, Field(ge=0, le=60, allow_inf_nan=False)] = 20.0


class StreamClaim(Wire):
    """Renew or release: the worker and the epoch under which it holds the stream."""

    worker: Name
    epoch: Step


class ReleaseRequest(StreamClaim):
    """Give the stream back; with an error the step's attempt counts."""

    error: Reason | None = None


class Renewed(Wire):
    """The lease lives `ttl_s` from now, by the database's clock."""

    ttl_s: float


class DeliveredTrajectory(Wire):
    """An executor trajectory in a delivery, with the executor's own scores where it has them."""

    id: Id
    state: str
    reason: str | None = None
    r_format: Binary | None = None
    r_expert: Unit | None = None
    version: PolicyVersion | None = None


class DeliveredRollout(Wire):
    """One slot's rollout. `executor_trajectories` is empty in the planner's delivery.

    The scores of the optional terms of the planner's reward are for the planner alone: null in the executor's delivery.
    """

    id: Id
    slot: Step
    status: Literal["reported", "aborted"]
    reason: str | None = None
    planner_trajectory: Id | None = None
    r_format: Binary | None = None
    r_correct: Unit | None = None
    r_protocol: Unit | None = None
    r_efficiency: Unit | None = None
    r_diversity: Unit | None = None
    calls: Step = 0
    version: PolicyVersion | None = None
    executor_trajectories: tuple[DeliveredTrajectory, ...] = ()


class DeliveredGroup(Wire):
    """One group of the batch, complete or discarded."""

    id: Id
    step: Step
    index: Step
    state: Literal["open", "complete", "discarded"]
    rollouts: tuple[DeliveredRollout, ...]


class DeliveryView(Wire):
    """The batch of one step as one role sees it, held under `epoch`."""

    id: Id
    run: Name
    role: Literal["planner", "executor"]
    step: Step
    epoch: Step
    attempt: Step
    groups: tuple[DeliveredGroup, ...]


class LeaseAnswer(Wire):
    """`delivery` is null where none became ready in time; `finished` says that none will."""

    delivery: DeliveryView | None = None
    finished: bool = False
    ttl_s: float = 30.0


class PolicyPublish(Wire):
    """A version that this role's samplers have loaded: the confirmation that opens the next step."""

    worker: Name
    updates: Step
    checksum: Checksum


class Heartbeat(Wire):
    """What a worker is and does."""

    role: Literal["planner", "executor"]
    url: Text
    device: Text = "cpu"
    version: PolicyVersion | None = None
    doing: Text = ""
    draining: bool = False


class StepStatistics(Wire):
    """The statistics of one acked step of one role."""

    step: Step
    role: Literal["planner", "executor"]
    epoch: Step
    outcome: str
    reason: str | None = None
    updates: Step
    acked_at: str
    statistics: dict[str, float]
    histograms: dict[str, dict[str, int]] = {}
