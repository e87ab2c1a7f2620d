"""The verdict on a run: is it healthy, who waits for whom, does it learn, when does it end."""

from typing import Annotated, Literal

from pydantic import Field

from shared.ids import Name
from shared.learning import Learning
from shared.schemas.base import Role, Step, Unit, Wire

Health = Literal["OK", "DEGRADED", "STALLED", "NOT LEARNING", "PAUSED", "IDLE", "FINISHED", "FAILED"]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Pace(Wire):
    """How fast one role goes, over its last acked steps; what cannot be told yet is null.

    Seconds are medians over these steps: `step_s` from ack to ack, `training_s` from lease to ack, `waiting_s` from
    ready to lease. `idle` is the share of the time between acks in which no delivery of the role was leased.
    """

    acked_step: Step
    step_s: Seconds | None
    training_s: Seconds | None
    waiting_s: Seconds | None
    idle: Unit | None


class Verdict(Wire):
    """`why` in words, the worst first; `advice`, what an operator may do, is often empty.

    `seconds_left`: until every role has acked its last step, at the pace of the last ones; null where nothing moves.
    """

    run: Name
    state: Health
    why: Annotated[tuple[str, ...], Field(min_length=1)]
    advice: tuple[str, ...] = ()
    learning: Learning
    step: Step
    steps: Step
    seconds_left: Seconds | None
    roles: dict[Role, Pace]
    at: str
