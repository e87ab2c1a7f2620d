"""How long each stage of a run took, over all starts of it."""

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from shared.errors import UserError


class Stopwatch:
    """Seconds by stage, added up in a file: a resumed run goes on from what its earlier starts took."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self.seconds: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
        except ValueError as error:
            raise UserError(f"{path} is spoilt: {error}") from None

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Time one stage, one that was interrupted too; what a kill cut short is not counted."""
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - start
            beside = self._path.with_suffix(".new")
            beside.write_text(json.dumps(self.seconds))
            beside.replace(self._path)
