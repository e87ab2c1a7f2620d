"""How much memory a command takes with all the processes that it starts."""

import asyncio
from types import TracebackType

import psutil

EVERY_S = 0.5


class PeakMemory:
    """An async context manager; `bytes` is the most that was seen at once.

    The sum of resident sets: pages that processes share (torch's own code, say) count in each, so it errs upwards.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "PeakMemory":
        self.look()
        self._task = asyncio.create_task(self._watch(), name="peak-memory")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def look(self) -> None:
        """Measure now."""
        me = psutil.Process()
        self.bytes = max(self.bytes, sum(map(_resident, [me, *me.children(recursive=True)])))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            self.look()


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:  # it has ended meanwhile
        return 0
