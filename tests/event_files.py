"""TensorBoard's event files, read back."""

import struct
from collections.abc import Iterator
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event


def events(folder: Path) -> list[Event]:
    """Every event of a folder, file by file, in the order of writing."""
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    return [Event.FromString(record) for file in files for record in _records(file.read_bytes())]


def points(folder: Path) -> list[tuple[int, str, float]]:
    """Step, name and value of every point."""
    return [(event.step, value.tag, value.simple_value) for event in events(folder) for value in event.summary.value]


def _records(data: bytes) -> Iterator[bytes]:
    """A record is its length (8 bytes), a checksum (4), itself, and a checksum (4)."""
    while data:
        (length,) = struct.unpack_from("<Q", data)
        yield data[12 : 12 + length]
        data = data[16 + length :]
