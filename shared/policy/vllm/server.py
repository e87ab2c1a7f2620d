"""A vLLM server as a child process. It listens on a socket in a folder that only this account can enter.

Its development routes, by which weights are changed, know no key: so there is no port that others could call them on.
"""

import asyncio
import os
import secrets
import signal
import time
from contextlib import suppress
from pathlib import Path

import httpx
from httpx_aiohttp import AiohttpTransport

from shared.errors import DeadlineExceeded, Unavailable, UserError
from shared.lock import OwnFolder
from shared.policy.child import CLOSE_S
from shared.policy.config import MIB, PolicyConfig
from shared.policy.vllm.api import VllmApi
from shared.policy.vllm.config import VllmConfig
from shared.process import Service
from shared.serving.secrets import secret_names

MODEL = "policy"
POLL_S = 0.2
UNLIMITED = httpx.Limits(max_connections=0, keepalive_expiry=4.0)
FIXED = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_SERVER_DEV_MODE": "1",  # the routes that pause, reload and name the weights
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # else it takes the first cores for itself, as every other one does
}


class VllmServer:
    """The process, from its start to its bounded end; its log is a file."""

    def __init__(self, config: PolicyConfig, vllm: VllmConfig, model: Path, log: Path, threads: int) -> None:
        assert vllm.python is not None
        if not vllm.python.is_file():
            raise UserError(f"policy.vllm.python: there is no {vllm.python}")
        self._start_s = vllm.start_s
        self._place = OwnFolder("tandem-vllm-")
        self.socket = self._place.path / "socket"
        self.api = VllmApi("vLLM", AiohttpTransport(uds=str(self.socket), limits=UNLIMITED), "http://vllm")
        self.threads: int | None = threads
        path = f"{vllm.python.absolute().parent}:{os.environ.get('PATH', '')}"
        keys = dict.fromkeys(secret_names(os.environ), "")  # on its socket it needs none, and would ask for one
        environment = keys | FIXED | {"PATH": path, "OMP_NUM_THREADS": str(threads)} | vllm.environment
        command = _command(config, vllm, model, self.socket)
        self._service = Service("vLLM server", command, log, environment)
        self._closing = False

    async def ready(self) -> None:
        """Wait until it answers; Unavailable says why it ended, DeadlineExceeded that it took too long."""
        deadline = time.monotonic() + self._start_s
        while not await self.api.healthy():
            if self._service.exit_code is not None:
                raise Unavailable(self._service.obituary())
            if time.monotonic() > deadline:
                raise DeadlineExceeded(f"vLLM did not answer within {self._start_s:.0f} s; see {self._service.log}")
            await asyncio.sleep(POLL_S)

    async def died(self) -> str:
        """Wait for its end, and say why. Does not return after `close`."""
        while True:
            if self._service.exit_code is not None and not self._closing:
                return self._service.obituary()
            await asyncio.sleep(POLL_S)

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """End it and its processes, within the bound; 0 kills them at once."""
        self._closing = True
        if timeout_s:
            await asyncio.to_thread(self._service.stop, timeout_s)
        with suppress(ProcessLookupError):
            os.killpg(self._service.pid, signal.SIGKILL)  # its engine and workers are in its group
        await asyncio.to_thread(self._service.stop, CLOSE_S)
        self._place.remove()


def _command(config: PolicyConfig, vllm: VllmConfig, model: Path, socket: Path) -> list[str]:
    seed = secrets.randbelow(2**31) if config.seed is None else config.seed
    values = {
        "model": model,
        "uds": socket,
        "served-model-name": MODEL,
        "dtype": config.dtype,
        "seed": seed,
        "max-num-seqs": config.max_batch,
        "kv-cache-memory-bytes": config.cache_mib * MIB,
        "logprobs-mode": "processed_logprobs",  # of softmax(logits / temperature), which is what the ratio rests on
        "generation-config": "vllm",  # else the model's own top-p and the like would be laid over the request
    }
    options = [text for name, value in values.items() for text in (f"--{name}", str(value))]
    module = "vllm.entrypoints.openai.api_server"
    return [str(vllm.python), "-m", module, *options, "--enable-scale-out", *vllm.arguments]
