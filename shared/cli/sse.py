"""Server-sent events, read: the part of the format that our event stream uses."""

from collections.abc import Iterable, Iterator

from pydantic import ValidationError

from shared.errors import Unavailable
from shared.schemas.events import Event


def events(lines: Iterable[str]) -> Iterator[Event]:
    """The events in the lines of a stream. Comments and other fields are passed over; half an event is none."""
    data: list[str] = []
    for line in lines:
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and data:
            yield _event("\n".join(data))
            data = []


def _event(text: str) -> Event:
    try:
        return Event.model_validate_json(text)
    except ValidationError:
        raise Unavailable("the stream has something that is no event of this version") from None
