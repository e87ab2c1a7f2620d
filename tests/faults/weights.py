"""Weights that say what they were trained on: one line a step, in a log that a checkpoint cuts to its length.

What a kill destroys here is what it destroys of real weights: everything after the last checkpoint.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from shared.policy.checkpoints import Checkpoint
from shared.schemas import PolicyVersion
from shared.schemas.stream import Ack


class ToyWeights:
    """The weights of one role, with their checkpoint, in `folder`. Speaks to `shared.stream.Stream`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log, self._meta = folder / "weights.log", folder / "checkpoint.json"
        self._log.touch()
        self.step = self.updates = 0
        self._hash = hashlib.sha256()

    def latest(self) -> Checkpoint | None:
        """The last checkpoint."""
        if not self._meta.exists():
            return None
        fields = json.loads(self._meta.read_text())
        del fields["length"]
        fields["pending_ack"] = Ack.model_validate_json(fields["pending_ack"])
        return Checkpoint(name=f"step-{fields['step']}", path=self._meta, **fields)

    async def restore(self, checkpoint: Checkpoint | None) -> None:
        """Back to `checkpoint`: what was trained after it is gone."""
        length = json.loads(self._meta.read_text())["length"] if checkpoint else 0
        os.truncate(self._log, length)
        self._hash = hashlib.sha256(self._log.read_bytes())
        self.step, self.updates = (checkpoint.step, checkpoint.updates) if checkpoint else (0, 0)

    async def checksum(self) -> str:
        """Of all that these weights were trained on."""
        return self._hash.hexdigest()

    async def load_sampler(self, version: PolicyVersion) -> str:
        """The sampler is the trainer here."""
        return self._hash.hexdigest()

    def train(self, step: int, rows: dict[str, int]) -> int:
        """One optimiser step on `rows`, or none where there is no row; the number of optimiser steps then."""
        line = (json.dumps({"step": step, "rows": rows}, separators=(",", ":")) + "\n").encode()
        with self._log.open("ab") as log:
            log.write(line)
        self._hash.update(line)
        self.step, self.updates = step, self.updates + bool(rows)
        return self.updates

    def save(self, pending: Ack) -> None:
        """Write a checkpoint that holds the ack of its step: whole or not there, and on disk."""
        _sync(self._log)
        fields: dict[str, Any] = {
            "step": self.step,
            "updates": self.updates,
            "checksum": self._hash.hexdigest(),
            "pending_ack": pending.model_dump_json(),
            "length": self._log.stat().st_size,
        }
        part = self._meta.with_suffix(".part")
        part.write_text(json.dumps(fields))
        _sync(part)
        part.rename(self._meta)
        _sync(self._meta.parent)


def surviving(folder: Path) -> list[tuple[int, dict[str, int]]]:
    """The steps, with their rows, that the last checkpoint in `folder` holds."""
    meta = folder / "checkpoint.json"
    if not meta.exists():
        return []
    kept = (folder / "weights.log").read_bytes()[: json.loads(meta.read_text())["length"]]
    return [(entry["step"], entry["rows"]) for entry in map(json.loads, kept.splitlines())]


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
