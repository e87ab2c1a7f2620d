"""New weights in a vLLM server without a restart, and the proof that they are there."""

import asyncio
import hashlib
from pathlib import Path

from shared.errors import Conflict, UserError
from shared.policy.vllm.api import VllmApi
from shared.policy.vllm.carrier import Carrier
from shared.policy.vllm.folder import HEAD_NAMES, checksum, head_bytes, write_folder
from shared.schemas.base import PolicyVersion


class Loader:
    """Puts weights into one server. `model` is the policy's own folder; `carrier` brings weights to the server."""

    def __init__(self, api: VllmApi, model: Path, carrier: Carrier, timeout_s: float) -> None:
        self._api, self._model, self._carrier, self._timeout_s = api, model, carrier, timeout_s
        self._head: str | None = None
        self._digests: dict[str, str] = {}

    async def load(self, weights: Path, version: PolicyVersion) -> str:
        """Let the server read `weights`, and confirm it; returns the checksum of the file that it read.

        What runs ends first. Conflict: it answers that it has loaded them, and has not.
        """
        name, api = version_name(version), self._api
        target = self._carrier.folder / name
        try:
            await asyncio.to_thread(write_folder, weights, self._model, target)
            head = await asyncio.to_thread(_digest_of_head, target)
            there = await self._carrier.carry(target, self._timeout_s)
            await api.pause(self._timeout_s)
            await api.reload(there, self._timeout_s)
            await api.forget_prefixes()
            await api.name_weights(name)
            await self._confirm(name, head)
            await api.resume()
            return await asyncio.to_thread(checksum, target)
        finally:
            await self._carrier.drop(target)

    async def close(self) -> None:
        """Close the connections to the server, and to what weights go through."""
        await self._api.close()
        await self._carrier.close()

    async def _confirm(self, name: str, head: str) -> None:
        """The version is the one that was set, and a head that is new to us is new to the server."""
        told = await self._api.weights_name()
        if told != name:
            raise Conflict(f"{self._api.where} was given weights {name}, and says that it holds {told}")
        before, after = self._digests, await self._api.digests(self._timeout_s)
        heads = [key for key in after if key.endswith(HEAD_NAMES)]
        if not heads:
            raise UserError(
                f"{self._api.where} serves a model whose head is its embedding, which it cannot reload: start it on "
                "the folder that `python -m shared.policy.vllm.folder MODEL FOLDER` writes"
            )
        kept = [key for key in heads if before.get(key) == after[key]]
        if kept and self._head not in (None, head):
            raise Conflict(f"{self._api.where} answered that it has loaded weights {name}, and kept {kept[0]}")
        self._head, self._digests = head, after


def version_name(version: PolicyVersion) -> str:
    """What the weights of a version are called."""
    return f"{version.epoch}.{version.step}.{version.updates}"


def named_version(name: str) -> PolicyVersion | None:
    """The version of such a name; None for what is none of ours."""
    parts = name.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() for part in parts):
        return None
    epoch, step, updates = map(int, parts)
    return PolicyVersion(epoch=epoch, step=step, updates=updates)


def _digest_of_head(folder: Path) -> str:
    digest = hashlib.sha256()
    for data in head_bytes(folder):
        digest.update(data)
    return digest.hexdigest()
