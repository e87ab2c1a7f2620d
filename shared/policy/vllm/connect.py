"""The two ways to have a vLLM server: as a child of this process, or on another host."""

import asyncio
import shutil
import time
from pathlib import Path
from typing import Protocol

from shared.errors import Unavailable
from shared.http.wire import wire
from shared.policy.child import CLOSE_S
from shared.policy.config import PolicyConfig
from shared.policy.vllm.api import VllmApi
from shared.policy.vllm.carrier import Carrier, Mirror, SharedFolder
from shared.policy.vllm.config import VllmConfig
from shared.policy.vllm.folder import write_folder
from shared.policy.vllm.server import VllmServer
from shared.serving.secrets import secret

POLL_S = 2.0
SILENT_S = 60.0
"""How long a server on another host may be out of reach before it counts as gone."""


class Server(Protocol):
    """The process behind a `VllmApi`; `threads` is None where it is not ours to know."""

    threads: int | None

    async def ready(self) -> None:
        """Wait until it answers; Unavailable says why it never will."""
        ...

    async def died(self) -> str:
        """Wait until it answers no more, and say why. Does not return after `close`."""
        ...

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """End it, if it is ours."""
        ...


class RemoteServer:
    """A server that somebody else started, and ends."""

    threads = None

    def __init__(self, api: VllmApi, start_s: float, silent_s: float = SILENT_S, poll_s: float = POLL_S) -> None:
        self._api, self._start_s, self._silent_s, self._poll_s = api, start_s, silent_s, poll_s
        self._closing = False

    async def ready(self) -> None:
        """Wait until it answers, within the configured time. UserError: something else is there."""
        deadline = time.monotonic() + self._start_s
        while await self._api.starting():
            if time.monotonic() > deadline:
                raise Unavailable(f"{self._api.where} did not answer within {self._start_s:.0f} s")
            await asyncio.sleep(self._poll_s)

    async def died(self) -> str:
        """Wait until it has not answered for a minute. Does not return after `close`."""
        while True:
            if not await self._answers_again() and not self._closing:
                return f"{self._api.where} has not answered for {self._silent_s:.0f} s"
            await asyncio.sleep(self._poll_s)

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """Leave it alone."""
        self._closing = True

    async def _answers_again(self) -> bool:
        deadline = time.monotonic() + self._silent_s
        while not await self._api.healthy():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(self._poll_s)
        return True


def carrier(vllm: VllmConfig, scratch: Path) -> Carrier:
    """The configured way of weights to the server."""
    if vllm.mirror_url:
        return Mirror(scratch, vllm.mirror_url, wire(), secret("MIRROR_KEY", vllm.mirror_key_file))
    return SharedFolder(vllm.folder or scratch)


async def start(
    config: PolicyConfig, vllm: VllmConfig, scratch: Path, log: Path, threads: int
) -> tuple[VllmApi, Server]:
    """The configured server, and its routes. A child is started on the copy of the model that it can reload."""
    if vllm.url:
        api = VllmApi(f"the vLLM server at {vllm.url}", wire(), vllm.url, secret("VLLM_KEY", vllm.key_file))
        return api, RemoteServer(api, vllm.start_s)
    initial = scratch / "initial"
    await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)  # what a killed process left there
    await asyncio.to_thread(write_folder, config.model, config.model, initial)
    server = VllmServer(config, vllm, initial, log, threads)
    return server.api, server
