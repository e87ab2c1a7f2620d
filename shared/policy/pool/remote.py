"""A `Child` on another machine, or on this one: a torch process of a policy behind a Ray actor."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError

from shared.errors import Conflict, DeadlineExceeded, Unavailable, from_problem
from shared.policy.child import CALL_S, CLOSE_S
from shared.policy.folder import check_model_folder
from shared.policy.pool.files import pull, push
from shared.policy.pool.host import PACKAGE, Host

CONCURRENCY = 4096
"""Calls that one actor holds at once; a sampler's turns wait in it."""
LATER_S = 10.0
"""How much later than the actor we give up: its own answer says more."""
READS = {"load": "folder", "restore": "folder", "generate": "checkpoint"}
"""Methods with the argument that names a folder of this machine which they read."""
COPIES = 5
"""Folders that a child on another machine has copies of: its model, two of live weights, two for evaluations."""
WRITES = {"save": "folder", "export": "folder"}


class RemoteChild:
    """What `Child` offers, of a process that runs where Ray has `cpus` and `gpus` for it.

    The actor is asked for at once, and waits in the cluster until there is room for it. Folders are named by their
    paths on this machine; on another one, the child gets or gives copies.
    """

    def __init__(self, kind: str, name: str, settings: dict[str, Any], logs: Path, threads: int, gpus: int) -> None:
        self.kind = kind
        self.info: dict[str, Any] = {}
        self.where: dict[str, Any] = {}
        self.settings = settings
        self._name, self._logs, self._threads = name, logs, threads
        self._actor: Any = (
            ray.remote(Host).options(num_cpus=threads, num_gpus=gpus, max_concurrency=CONCURRENCY).remote()
        )
        self._is_here = True
        self._closing = False
        self._death: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._watch: asyncio.Task[None] | None = None
        self._copies: OrderedDict[tuple[str, int], str] = OrderedDict()
        self._lent = 0
        self._copying = asyncio.Lock()

    async def placed(self) -> dict[str, Any]:
        """Wait until the cluster has room for it: where it is, as `Host.where` says."""
        if not self.where:
            self.where = await self._ask(self._actor.where.remote())
            self._is_here = self.where["node"] == ray.get_runtime_context().get_node_id()
        return self.where

    async def ready(self) -> None:
        """Start the process where there is room; raises its own UserError, or Unavailable if it ended."""
        await self.placed()
        self._logs.mkdir(parents=True, exist_ok=True)
        log = str(self._logs / f"{self._name}.log") if self._is_here else f"{self.where['folder']}/{self._name}.log"
        settings = self.settings | {"model": await self._lend(self.settings["model"])}
        start = self._actor.start.remote(self.kind, settings, log, self._threads, version(PACKAGE))
        self.info = self._open(await self._ask(start))
        self._watch = asyncio.create_task(self._await_death(), name=f"{self._name}-life")

    async def call(self, method: str, arguments: dict[str, Any] | None = None, timeout_s: float = CALL_S) -> Any:
        """Ask it; raises the error that it answers with, or Unavailable where it, its actor or its machine dies.

        The actor keeps the deadline, and so do we: it may hang itself, which nothing else would tell.
        """
        try:
            async with asyncio.timeout(timeout_s + LATER_S):
                return await self._call(method, arguments, timeout_s)
        except TimeoutError:
            raise DeadlineExceeded(f"{self._place()} did not answer {method} within {timeout_s:.0f} s") from None

    async def _call(self, method: str, arguments: dict[str, Any] | None, timeout_s: float) -> Any:
        arguments = dict(arguments or {})
        given = arguments.get(READS.get(method, ""))
        if given is not None:
            arguments[READS[method]] = await self._lend(given, optimizer=method == "restore")
        written = arguments.get(WRITES.get(method, ""))
        if written is None or self._is_here:
            return self._open(await self._ask(self._actor.call.remote(method, arguments, timeout_s)))
        await self._ask(self._actor.make.remote("out"))
        arguments[WRITES[method]] = f"{self.where['folder']}/out"
        result = self._open(await self._ask(self._actor.call.remote(method, arguments, timeout_s)))
        await self._ask(pull(self._actor, "out", Path(written)))
        if result and result != await asyncio.to_thread(_checksum, Path(written)):
            raise Conflict(f"the weights that came from {self.where['address']} are not those that were sent")
        await self._ask(self._actor.remove.remote("out"))
        return result

    async def died(self) -> str:
        """Wait for the end of the process or its actor, and say why. Does not return after `close`."""
        return await asyncio.shield(self._death)

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """Let the process end by itself, within the bound; then kill the actor, and it with it."""
        self._closing = True
        if self._watch:
            self._watch.cancel()
        if timeout_s and self.where:
            with suppress(RayError, TimeoutError):
                await asyncio.wait_for(self._actor.close.remote(timeout_s), timeout_s + 1)
        with suppress(RayError):
            ray.kill(self._actor)

    async def _lend(self, folder: str, *, optimizer: bool = False) -> str:
        """The path of `folder` on the child's machine, where a copy that it was lent before is used again.

        The first copy is the model that it starts from, and stays; of the others, the last few do.
        """
        if self._is_here:
            return folder
        key = folder, _changed_ns(folder)
        async with self._copying:
            if key not in self._copies:
                self._lent += 1
                await self._ask(push(Path(folder), self._actor, f"lent-{self._lent}", optimizer=optimizer))
                self._copies[key] = f"lent-{self._lent}"
                while len(self._copies) > COPIES:
                    await self._ask(self._actor.remove.remote(self._copies.pop(list(self._copies)[1])))
            return f"{self.where['folder']}/{self._copies[key]}"

    def _open(self, answer: dict[str, Any]) -> Any:
        if "error" in answer:
            raise from_problem(answer["error"], answer["error"]["status"])
        return answer["result"]

    async def _ask(self, answer: Awaitable[Any]) -> Any:
        """Await the actor. A cancelled call is withdrawn there, too."""
        try:
            return await answer
        except RayError as error:
            raise Unavailable(self._lost(error)) from None
        except asyncio.CancelledError:
            if isinstance(answer, ray.ObjectRef):
                ray.cancel(answer)
            raise

    async def _await_death(self) -> None:
        """Consumes the life of the process; produces the reason of its end."""
        try:
            reason = await self._actor.died.remote()
        except RayError as error:
            reason = self._lost(error)
        if not self._closing and not self._death.done():
            self._death.set_result(reason)

    def _lost(self, error: RayError) -> str:
        return f"{self._place()} is gone: {' '.join(str(error).split())[:500]}"

    def _place(self) -> str:
        return f"the actor of the {self.kind} on {self.where.get('address', 'a machine not known yet')}"


def _changed_ns(folder: str) -> int:
    """UserError where it is missing, as the child says on this machine."""
    check_model_folder(Path(folder))
    return Path(folder).stat().st_mtime_ns


def _checksum(folder: Path) -> str:
    with (folder / "model.safetensors").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
