"""Where training curves go: one interface, and what is behind it.

A sink is given the statistics of each step that the sync service has acked. A trainer that resumes from an earlier
checkpoint trains steps again: then a step comes a second time, and the later record counts.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

from shared.config import Config
from shared.errors import from_os_error
from shared.schemas import Role
from shared.serving.tensorboard import TensorBoardSink


class MetricsSink(Protocol):
    """Takes the curves of a run."""

    def record(self, role: Role, step: int, values: Mapping[str, float]) -> None:
        """The statistics of one step of one role; never waits for a network."""
        ...

    def close(self) -> None:
        """Write what is not written yet."""
        ...


class MetricsConfig(Config):
    """Where a role's server writes its curves; nowhere, if nothing is set. `/metrics` has the last step in any case."""

    jsonl: Path | None = None
    """A file, one line of JSON a step."""
    tensorboard: Path | None = None
    """A folder: TensorBoard's event files go to `<folder>/<run>/<role>`, so one folder may be all servers'."""


class JsonlSink:
    """Appends a line for each record: role, step, values."""

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise from_os_error(error) from None

    def record(self, role: Role, step: int, values: Mapping[str, float]) -> None:
        """One line, at once in the file."""
        self._file.write(json.dumps({"role": role, "step": step, "values": dict(values)}) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@asynccontextmanager
async def open_sinks(config: MetricsConfig, run: str, role: Role) -> AsyncGenerator[list[MetricsSink]]:
    """The configured ones, closed at the end. UserError: a place cannot be written, or the writer is not installed."""
    async with AsyncExitStack() as stack:
        sinks: list[MetricsSink] = []
        if config.jsonl:
            sinks.append(JsonlSink(config.jsonl))
        if config.tensorboard:
            sinks.append(await asyncio.to_thread(TensorBoardSink, config.tensorboard / run / role))
        for sink in sinks:
            stack.push_async_callback(asyncio.to_thread, sink.close)
        yield sinks
