"""Where the events of now begin."""

from shared.cli.server import Server
from shared.schemas.events import EventPage

LARGEST = 2**62


def last_position(server: Server, run: str | None) -> int:
    """The position of the newest event, 0 where there is none.

    The service tells what is above a position, and positions only grow: so the last one is found by halving, in some
    forty small calls, and not by reading what may be a million events.
    """

    def nothing_above(position: int) -> bool:
        return not server.get("/v1/events", EventPage, after=position, run=run, limit=1).items

    if nothing_above(0):
        return 0
    high = 1
    while high < LARGEST and not nothing_above(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if nothing_above(middle) else (middle, high)
    return high
