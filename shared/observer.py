"""Who is told what a stream does: in which part of a step it is, which steps were acked, which were lost."""

from shared.schemas.stream import Ack


class Observer:
    """This one keeps nothing of it."""

    def enter(self, part: str) -> None:
        """The training loop is in this part of a step from now on: resume, wait, train, ack or load."""

    def acked(self, ack: Ack) -> None:
        """The service took this ack."""

    def lost(self) -> None:
        """A step that was begun was given up: its lease is another's, or could not be renewed."""
