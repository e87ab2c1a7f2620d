"""The processes of one run: the sync service, and the servers that train, each killed where its orders say."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import psutil
import tomli_w

from shared.http.ports import free_port
from shared.process import Service
from shared.schemas import Role
from tests.e2e.survival.orders import EVERY, STEPS, Order
from tests.e2e.survival.recorded import RUN, STORE_BYTES
from tests.integration.servers.trio import tables
from tests.processes import words
from tests.waiting import until

ROOT = Path(__file__).parents[3]
PATIENCE_S = 240.0
"""For one move of one process, on a machine that has much else to do."""
ENVIRONMENT = "tests.e2e.survival.silence:Silence"
POLICY = {
    "device": "cpu",
    "threads": 1,
    "store": {"max_bytes": STORE_BYTES},
    "checkpoints": {"every": EVERY, "keep_last": 2},
    "trainer": {"lr": 1e-2, "warmup_steps": 3, "micro_batch_tokens": 128, "deterministic": True},
}


def start(name: str, module: str, folder: Path, *arguments: object) -> Service:
    """A Python process of this repository, logging to `folder`."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return Service(name, command, folder / f"{name.replace(' ', '-')}.log", {"PYTHONPATH": str(ROOT)})


async def kill(process: psutil.Process) -> None:
    """kill -9; it and its children are gone on return."""
    family = [process, *process.children(recursive=True)]
    process.kill()
    _, left = await asyncio.to_thread(psutil.wait_procs, family, PATIENCE_S)
    assert left == []


class SyncService:
    """The sync service on one database, always under the same URL."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self._folder, self._database_url = folder, database_url
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._restarting = asyncio.Lock()
        self.start()

    def start(self) -> None:
        """Start it; who calls it before it answers tries again."""
        module = "tests.e2e.survival.sync_process"
        self._service = start("sync service", module, self._folder, self._database_url, self._port, self._folder)

    async def restart(self) -> None:
        """kill -9, then a new process."""
        async with self._restarting:
            await kill(psutil.Process(self._service.pid))
            self.start()

    def stop(self) -> None:
        """In order."""
        self._service.stop()


class TrainingServer:
    """One role's server, with its trajectories stored beforehand; `run` kills and restarts it until it is done."""

    def __init__(self, role: Role, folder: Path, sync: SyncService) -> None:
        self.role: Role = role
        self.folder = folder / role
        self._sync = sync
        self._config = folder / f"{role}.toml"
        self._service: Service | None = None
        changes = {"port": free_port(), "sync_url": sync.url, "environment": ENVIRONMENT, "policy": POLICY}
        config = tables(role, RUN, folder, {}, **changes)
        config["policy"]["model"], config["folder"] = str(config["policy"]["model"]), str(self.folder)
        if role == "planner":
            config["executor_url"] = f"http://127.0.0.1:{free_port()}"  # nobody is there: it has nothing to roll out
        self._config.write_text(tomli_w.dumps(config))

    async def run(self, orders: Sequence[Order]) -> None:
        """Train to the end, killed on the way as ordered."""
        never = Order(len(orders), 0, "before-update", "server")
        self._give([*orders, never][0])
        self._start()
        for order, following in pairwise([*orders, never]):
            await self._until((self.folder / f"reached-{order.number}").exists)
            self._give(following)
            await self._carry_out(order)
        await self._until((self.folder / "checkpoints" / f"step-{STEPS}").is_dir)

    async def _carry_out(self, order: Order) -> None:
        assert self._service is not None
        if order.victim == "sync service":
            await self._sync.restart()
            (self.folder / f"go-{order.number}").touch()
            return
        server = psutil.Process(self._service.pid)
        if order.victim == "trainer":
            (trainer,) = (child for child in server.children(recursive=True) if "trainer" in words(child))
            trainer.kill()
            assert await asyncio.to_thread(self._service.wait, PATIENCE_S) == 1, self._service.obituary()
        else:
            await kill(server)
        self._start()

    def stop(self) -> None:
        """In order."""
        if self._service is not None:
            self._service.stop()

    def _start(self) -> None:
        module = "tests.e2e.survival.standing_still"
        arguments = (self.role, self.folder, "--config", self._config)
        self._service = start(self.role, module, self._config.parent, *arguments)

    def _give(self, order: Order) -> None:
        """Whole or not at all: the server reads it at any time."""
        beside = self.folder / "order.new"
        beside.write_text(json.dumps(asdict(order)))
        os.replace(beside, self.folder / "order.json")

    async def _until(self, condition) -> None:
        def check() -> bool:
            assert self._service is not None
            assert self._service.exit_code is None, self._service.obituary()
            return condition()

        await until(check, PATIENCE_S)
