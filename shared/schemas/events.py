"""Events: what happened in a run, in an order that skips nothing. Ids, numbers and codes only."""

from typing import Annotated, Literal

from pydantic import Field

from shared.ids import Name
from shared.schemas.base import Wire

EventKind = Literal[
    "run-moved",
    "group-closed",
    "group-discarded",
    "group-sealed",
    "batch-cut",
    "delivery-ready",
    "delivery-leased",
    "delivery-acked",
    "delivery-dead",
    "delivery-requeued",
    "delivery-skipped",
    "stream-resumed",
    "stream-released",
    "stream-expired",
    "version-confirmed",
    "worker-lost",
    "worker-back",
    "stall-began",
    "stall-ended",
]
Position = Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)]


class Event(Wire):
    """One event. `position` is the cursor: it grows in the order in which events can be seen."""

    position: Position
    run: Name
    kind: EventKind
    at: str
    body: dict[str, int | str]


class EventPage(Wire):
    """Events above the position asked for; `after` is the position to ask for next."""

    items: tuple[Event, ...]
    after: Position
