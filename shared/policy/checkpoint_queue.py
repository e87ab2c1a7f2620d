"""Requests for saved checkpoints, in the order in which they came, until an engine takes them."""

from collections.abc import Hashable
from pathlib import Path

from shared.errors import TandemError
from shared.policy.checkpoint_engines import CheckpointEngines, Key
from shared.policy.turns import Prompt


class CheckpointQueue:
    """Those whose checkpoint is held overtake those that wait for a place, for a while: see `SLICE_S`."""

    def __init__(self, engines: CheckpointEngines) -> None:
        self._engines = engines
        self._waiting: dict[Hashable, tuple[Path, Prompt]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, id_: Hashable, folder: Path, prompt: Prompt) -> None:
        """Sample a turn by the weights in `folder`, once they are held."""
        self._waiting[id_] = folder, prompt

    def cancel(self, id_: Hashable) -> None:
        """Forget a request, if it still waits."""
        self._waiting.pop(id_, None)

    def admit(self) -> list[tuple[Hashable, TandemError]]:
        """Hand requests to the engines that are held, or can be now; returns those that fail, and why."""
        closed: set[Key] = set()
        waits: set[Path] = set()
        failed = []
        for id_, (folder, prompt) in list(self._waiting.items()):
            if folder in waits:
                continue
            try:
                engine = self._engines.engine(folder, closed)
            except TandemError as error:
                failed.append((id_, error))
            else:
                if engine is None:
                    waits.add(folder)
                    continue
                engine.add(id_, prompt)
            del self._waiting[id_]
        return failed
