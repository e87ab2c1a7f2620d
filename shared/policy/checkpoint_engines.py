"""Engines of saved checkpoints, for evaluations beside the live weights."""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import PreTrainedModel

from shared.errors import NotFound, Unavailable
from shared.policy.checkpoints import saved_version
from shared.policy.engine import Engine
from shared.policy.folder import check_model_folder

CHECKPOINTS = 2
"""How many are held; the one used longest ago leaves for another, once it has nothing to do."""


class CheckpointEngines:
    """`load` makes a model of a folder, `build` an engine of a model and its version."""

    def __init__(
        self, load: Callable[[Path], PreTrainedModel], build: Callable[[PreTrainedModel, dict[str, int]], Engine]
    ) -> None:
        self._load, self._build = load, build
        self._engines: OrderedDict[tuple[str, int], Engine] = OrderedDict()

    def all(self) -> list[Engine]:
        """Those that are held."""
        return list(self._engines.values())

    def engine(self, folder: Path) -> Engine | None:
        """The engine of a folder's weights; None while every one that is held has work of its own.

        UserError: the folder holds no model. NotFound: it was removed while it was read. Unavailable: the GPU is full.
        """
        try:
            return self._engine(folder)
        except FileNotFoundError:  # within the reading of it: before, it is a UserError
            raise NotFound(f"{folder} is gone: it was removed, as newer checkpoints came") from None
        except torch.OutOfMemoryError:
            raise Unavailable(f"{folder} does not fit the GPU beside the live weights") from None

    def _engine(self, folder: Path) -> Engine | None:
        check_model_folder(folder)
        key = str(folder), folder.stat().st_mtime_ns  # a resumed run may save the same step again
        version = saved_version(folder).model_dump()
        if key not in self._engines:
            if len(self._engines) >= CHECKPOINTS:
                idle = next((key for key, engine in self._engines.items() if not engine.unanswered), None)
                if idle is None:
                    return None
                del self._engines[idle]
            self._engines[key] = self._build(self._load(folder), version)
        self._engines.move_to_end(key)
        return self._engines[key]
