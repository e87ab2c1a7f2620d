"""A torch process's end of its pipes: blocking, single-threaded, and never in the way of the model."""

import os
import select
import time

from shared.policy.framing import Decoder, Message, encode

CHUNK = 2**20


class Channel:
    """Messages from the parent and to it. EOFError from `receive`: the parent is gone or wants us to end."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self._read, self._write = read_fd, write_fd
        self._decoder = Decoder()

    def receive(self, timeout_s: float | None = None) -> list[Message]:
        """Wait for a message, then take what is there without waiting; empty where none came in time."""
        messages: list[Message] = []
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self._readable(deadline if not messages else 0.0):
            data = os.read(self._read, CHUNK)
            if not data:
                raise EOFError
            messages += self._decoder.feed(data)
        return messages

    def send(self, *messages: Message) -> None:
        """Write all of them at once; blocks while the pipe is full."""
        data = memoryview(b"".join(map(encode, messages)))
        while data:
            data = data[os.write(self._write, data) :]

    def _readable(self, deadline: float | None) -> bool:
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        return bool(select.select([self._read], [], [], timeout)[0])
