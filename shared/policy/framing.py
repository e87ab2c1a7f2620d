"""Frames between a server and its torch processes: a length, then JSON. Nothing that could run code on arrival."""

import json
import struct
from typing import Any

HEADER = struct.Struct(">I")
MAX_BYTES = 2**28

Message = dict[str, Any]


def encode(message: Message) -> bytes:
    """One frame: 4 bytes of length (big endian), then the message as JSON, without NaN."""
    body = json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
    return HEADER.pack(len(body)) + body


class Decoder:
    """Bytes in any portions in, whole messages out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """The messages that `data` completes; ValueError where the stream is no stream of frames."""
        self._buffer += data
        messages, start = [], 0
        while len(self._buffer) - start >= HEADER.size:
            (length,) = HEADER.unpack_from(self._buffer, start)
            if length > MAX_BYTES:
                raise ValueError(f"a frame of {length} bytes: this is no stream of frames")
            end = start + HEADER.size + length
            if len(self._buffer) < end:
                break
            messages.append(json.loads(self._buffer[start + HEADER.size : end]))
            start = end
        del self._buffer[:start]
        return messages
