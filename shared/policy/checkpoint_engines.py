"""Engines of saved checkpoints, for evaluations beside the live weights."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedModel

from shared.errors import NotFound, Unavailable, UserError
from shared.policy.checkpoints import saved_checksum, saved_version
from shared.policy.engine import Engine
from shared.policy.folder import check_model_folder
from shared.policy.weights import FILE, file_checksum

CHECKPOINTS = 2
"""How many are held; the one used longest ago leaves for another, once it has nothing to do."""
SLICE_S = 10.0
"""For so long one that is held takes whatever comes; then it may be closed for one that waits, and so gets idle."""

Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Held:
    """An engine, and since when it is there."""

    engine: Engine
    since: float


class CheckpointEngines:
    """`load` makes a model of a folder, `build` an engine of a model and its version."""

    def __init__(
        self, load: Callable[[Path], PreTrainedModel], build: Callable[[PreTrainedModel, dict[str, int]], Engine]
    ) -> None:
        self._load, self._build = load, build
        self._held: OrderedDict[Key, Held] = OrderedDict()

    def all(self) -> list[Engine]:
        """Those that are held."""
        return [held.engine for held in self._held.values()]

    def engine(self, folder: Path, closed: set[Key]) -> Engine | None:
        """The engine of a folder's weights; None where it is `closed`, or while every one that is held is at work.

        In the latter case the one that is held longest is added to `closed`, once it had its time: whoever asks for it
        later is to wait for longer. UserError: the folder holds no model, or a damaged one. NotFound: it was removed
        while it was read. Unavailable: the GPU is full.
        """
        try:
            return self._engine(folder, closed)
        except FileNotFoundError:  # within the reading of it: before, it is a UserError
            raise NotFound(f"{folder} is gone: it was removed, as newer checkpoints came") from None
        except torch.OutOfMemoryError:
            raise Unavailable(f"{folder} does not fit the GPU beside the live weights") from None

    def _engine(self, folder: Path, closed: set[Key]) -> Engine | None:
        check_model_folder(folder)
        key = str(folder), folder.stat().st_mtime_ns  # a resumed run may save the same step again
        version = saved_version(folder).model_dump()
        if key in closed:
            return None
        if key not in self._held:
            if not self._make_room():
                self._close_oldest(closed)
                return None
            check_weights(folder)
            self._held[key] = Held(self._build(self._load(folder), version), time.monotonic())
        self._held.move_to_end(key)
        return self._held[key].engine

    def _make_room(self) -> bool:
        """Whether there is any."""
        if len(self._held) < CHECKPOINTS:
            return True
        idle = next((key for key, held in self._held.items() if not held.engine.unanswered), None)
        if idle is not None:
            del self._held[idle]
        return idle is not None

    def _close_oldest(self, closed: set[Key]) -> None:
        oldest = min(self._held, key=lambda key: self._held[key].since)
        if time.monotonic() - self._held[oldest].since >= SLICE_S:
            closed.add(oldest)


def check_weights(folder: Path) -> None:
    """UserError where a checkpoint's weights are not those that were saved."""
    saved = saved_checksum(folder)
    if saved and file_checksum(folder / FILE) != saved:
        raise UserError(f"the checkpoint {folder} is damaged: its weights are not those that were saved")
