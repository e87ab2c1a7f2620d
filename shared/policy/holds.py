"""Checkpoints that evaluations use: retention spares them."""

import time
from collections import Counter
from pathlib import Path

LINGER_S = 900.0
"""How long one is spared after its last use: an executor is asked for its own anew with every delegation."""


class Holds:
    """Who uses which folder now, and when it was last used. Of this process: a restart forgets them."""

    def __init__(self) -> None:
        self._users: Counter[Path | None] = Counter()
        self._until: dict[Path | None, float] = {}

    def take(self, folder: Path | None) -> None:
        """One more uses it. None: the live weights, which nobody removes."""
        self._users[folder] += 1

    def release(self, folder: Path | None) -> None:
        """One that took it has done with it, for now."""
        self._users[folder] -= 1
        self._until[folder] = time.monotonic() + LINGER_S

    def spared(self, folder: Path) -> bool:
        """Whether retention is to leave it alone."""
        return self._users[folder] > 0 or time.monotonic() < self._until.get(folder, 0.0)
