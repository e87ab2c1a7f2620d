"""Checkpoints: Hugging Face folders with the optimiser's state, complete or not there at all.

    checkpoints/step-20/  model.safetensors, config and tokenizer files; optimizer.safetensors; trainer.json
    checkpoints/best      the name of the one that validation likes best

A checkpoint is written beside as `.partial-step-20`, synced to disk and renamed.
"""

import asyncio
import json
import os
import re
import shutil
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from shared.errors import InvalidInput, NotFound, Unavailable, UserError
from shared.policy.holds import Holds
from shared.schemas.base import PolicyVersion, Role
from shared.schemas.stream import Ack

FORMAT = 1
META = "trainer.json"
BEST = "best"
NAME = re.compile(r"step-([0-9]+)")
WEIGHTS = re.compile(r".*(\.safetensors|\.bin|\.pt|\.pth|\.gguf|\.index\.json)$")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights after `step`, with `updates` optimiser steps behind them; `pending_ack` is the body of that step's ack.

    `checksum` is the sha256 of its model.safetensors. `kept`: it is the best one, which retention spares.
    """

    name: str
    path: Path
    step: int
    updates: int
    checksum: str
    pending_ack: Ack
    kept: bool = False

    @property
    def version(self) -> PolicyVersion:
        """The version that these weights had when they were trained."""
        return PolicyVersion(epoch=self.pending_ack.epoch, step=self.step, updates=self.updates)


class CheckpointStore:
    """The checkpoints of one role of one run. `initial` is the model folder that the run started from."""

    def __init__(self, folder: Path, initial: Path, run: str, role: Role, keep_last: int) -> None:
        self.folder, self.initial = folder, initial
        self._run, self._role, self._keep_last = run, role, keep_last
        self._retiring = threading.Lock()
        self._holds = Holds()
        folder.mkdir(parents=True, exist_ok=True)
        self._remove_half_written()

    def saved(self) -> list[Checkpoint]:
        """All complete ones, by step; UserError where they belong to another run or role."""
        best = self._best()
        found = []
        for path in [path for path in self.folder.iterdir() if NAME.fullmatch(path.name)]:
            with suppress(FileNotFoundError):  # retention, in another thread, has just removed it
                found.append(self._read(path, best))
        return sorted(found, key=lambda checkpoint: checkpoint.step)

    def latest(self) -> Checkpoint | None:
        """The one to resume from."""
        return next(reversed(self.saved()), None)

    def path(self, name: str) -> Path | None:
        """The folder behind a name of `schemas.invocation`; None for `live`, NotFound where there is none."""
        if name == "live":
            return None
        if name == "latest":
            latest = self.latest()
            name = latest.name if latest else ""
        if name == BEST:
            name = self._best() or ""
        path = self.initial if name == "initial" else self.folder / name
        if name != "initial" and not (NAME.fullmatch(name) and (path / META).is_file()):
            raise NotFound(f"the {self._role} has no such checkpoint{': ' + name if name else ' yet'}")
        return path

    @contextmanager
    def hold(self, name: str) -> Generator[Path | None]:
        """Its `path`, which retention spares meanwhile, and for `LINGER_S` afterwards."""
        with self._retiring:
            path = self.path(name)
            self._holds.take(path)
        try:
            yield path
        finally:
            self._holds.release(path)

    def keep(self, name: str) -> None:
        """Mark it `best`: retention spares it until another one is marked. Unavailable where that cannot be written."""
        with self._retiring:
            path = self.path(name)
            if path is None:
                raise InvalidInput("live weights are no checkpoint: save them first, or name a saved one")
            try:
                self._mark("initial" if path == self.initial else path.name)
            except OSError as error:
                raise Unavailable(f"{self.folder / BEST} cannot be written: {error.strerror}") from None

    def _mark(self, name: str) -> None:
        beside = self.folder / f".partial-{BEST}"
        beside.write_text(name)
        _sync(beside)
        beside.rename(self.folder / BEST)
        _sync(self.folder)

    async def save(
        self, step: int, updates: int, pending_ack: Ack, write: Callable[[Path], Awaitable[str]]
    ) -> Checkpoint:
        """Make the checkpoint of `step`: `write` fills a folder with weights and returns their checksum."""
        partial = self.folder / f".partial-step-{step}"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        checksum = await write(partial)
        meta = {
            "format": FORMAT,
            "run": self._run,
            "role": self._role,
            "step": step,
            "updates": updates,
            "checksum": checksum,
            "pending_ack": pending_ack.model_dump(mode="json"),
        }
        await asyncio.to_thread(self._complete, partial, meta)
        return self._read(self.folder / f"step-{step}", self._best())

    def _complete(self, partial: Path, meta: dict) -> None:
        for file in self.initial.iterdir():  # the tokenizer, its chat template, whatever else belongs to the model
            if file.is_file() and not (partial / file.name).exists() and not WEIGHTS.fullmatch(file.name):
                shutil.copyfile(file, partial / file.name)
        (partial / META).write_text(json.dumps(meta, indent=1))
        for file in partial.iterdir():
            _sync(file)
        _sync(partial)
        final = self.folder / f"step-{meta['step']}"
        self._remove(final)
        partial.rename(final)
        _sync(self.folder)
        self._retire()

    def _retire(self) -> None:
        """Remove old ones; what is marked or held meanwhile, by the event loop's thread, is not among them."""
        with self._retiring:
            best = self._best()
            old = [checkpoint.path for checkpoint in self.saved()[: -self._keep_last] if checkpoint.name != best]
            doomed = [self._put_away(path) for path in old if not self._holds.spared(path)]
        for folder in doomed:
            shutil.rmtree(folder)

    def _remove(self, path: Path) -> None:
        if path.exists():
            shutil.rmtree(self._put_away(path))

    def _put_away(self, path: Path) -> Path:
        """At once as names go: a half-removed checkpoint must not look like one."""
        doomed = self.folder / f".removed-{path.name}"
        shutil.rmtree(doomed, ignore_errors=True)
        return path.rename(doomed)

    def _remove_half_written(self) -> None:
        for path in list(self.folder.iterdir()):
            unfinished = path.name.startswith(".") or (bool(NAME.fullmatch(path.name)) and not (path / META).is_file())
            if unfinished and path.is_dir():
                shutil.rmtree(path)

    def _best(self) -> str | None:
        file = self.folder / BEST
        return file.read_text() if file.is_file() else None

    def _read(self, path: Path, best: str | None) -> Checkpoint:
        try:
            meta = json.loads((path / META).read_text())
            owner = meta["run"], meta["role"]
            ack = Ack.model_validate_json(json.dumps(meta["pending_ack"]))
            checkpoint = Checkpoint(
                name=path.name,
                path=path,
                step=meta["step"],
                updates=meta["updates"],
                checksum=meta["checksum"],
                pending_ack=ack,
                kept=path.name == best,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path / META} is not that of a checkpoint: {str(error).splitlines()[0]}") from None
        if owner != (self._run, self._role):
            raise UserError(f"{path} belongs to the {owner[1]} of run {owner[0]}, not to this one")
        return checkpoint


def saved_version(folder: Path) -> PolicyVersion:
    """The version of a checkpoint's weights; zeros for a folder that is no checkpoint of ours, as the initial model.

    UserError: its description is spoilt.
    """
    return _described(folder)[0]


def saved_checksum(folder: Path) -> str | None:
    """The checksum of a checkpoint's weights; None for a folder that is no checkpoint of ours. UserError as above."""
    return _described(folder)[1]


def _described(folder: Path) -> tuple[PolicyVersion, str | None]:
    file = folder / META
    if not file.is_file():
        return PolicyVersion(epoch=0, step=0, updates=0), None
    try:
        meta = json.loads(file.read_text())
        version = PolicyVersion(epoch=meta["pending_ack"]["epoch"], step=meta["step"], updates=meta["updates"])
        return version, meta["checksum"]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{file} is not that of a checkpoint: {str(error).splitlines()[0]}") from None


def _sync(path: Path) -> None:
    """Make a file's bytes, or a folder's names, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
