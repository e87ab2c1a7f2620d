"""The three real apps in one process, wired through ASGI, with torch processes of their own as in life."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
from asgi_lifespan import LifespanManager
from fastapi import FastAPI

from executor_server.app import create_app as executor_app
from executor_server.config import ExecutorConfig
from planner_server.app import Wires
from planner_server.app import create_app as planner_app
from planner_server.config import PlannerConfig
from shared.client import SyncClient
from shared.config import parse
from shared.schemas import Role
from shared.schemas.run import RunSpec, RunStatus
from sync_service.app import create_app as sync_app
from sync_service.config import SyncConfig
from tests.parity_environment import NUMBERS, answer, call, save_model
from tests.waiting import until

PATIENCE_S = 90.0

Bias = Mapping[str, float]


def answers(weight: float = 1.0) -> dict[str, float]:
    """A bias towards every answer."""
    return {answer(number): weight for number in NUMBERS}


def calls(role: Role, weight: float = 1.0) -> dict[str, float]:
    """A bias towards every call."""
    return {call(role, number): weight for number in NUMBERS[:4]}


def tables(role: Role, run: str, folder: Path, bias: Bias, **changes: Any) -> dict[str, Any]:
    """A role's configuration in `run`, with a model of that bias; `changes` are laid over it, sections key by key."""
    model = folder / role / "model"
    if not model.exists():
        save_model(model, role, bias)
    base: dict[str, Any] = {
        "run": run,
        "worker": f"{role}-1",
        "auth": "loopback",
        "sync_url": "http://sync",
        "folder": folder / role,
        "environment": "tests.parity_environment:Parity",
        "limits": {"max_new_tokens": 2, "max_turns": 6, "max_calls": 4, "max_context_tokens": 200},
        "policy": {"model": model, "device": "cpu", "threads": 1, "seed": 1, "trainer": {"lr": 1e-2}},
    }
    if role == "planner" and changes.get("team", "pair") == "pair":
        base["executor_url"] = "http://executor"
    sections = {
        k: {**base[k], **v} for k, v in changes.items() if isinstance(v, dict) and isinstance(base.get(k), dict)
    }
    return {**base, **changes, **sections}


@dataclass
class Trio:
    """The sync service runs; the others are started by the test, with its own biases and settings."""

    run: str
    sync: FastAPI
    client: SyncClient
    folder: Path
    stack: AsyncExitStack
    executor: FastAPI | None = None
    planner: FastAPI | None = None

    async def start_executor(self, bias: Bias, wire: httpx.AsyncBaseTransport | None = None, **changes: Any) -> FastAPI:
        """Start the executor's server; `wire` replaces the one to the sync service."""
        config = parse(ExecutorConfig, tables("executor", self.run, self.folder, bias, **changes))
        self.executor = executor_app(config, sync=wire or httpx.ASGITransport(self.sync))
        await self._run(self.executor)
        return self.executor

    async def start_planner(
        self,
        bias: Bias,
        executor: httpx.AsyncBaseTransport | None = None,
        wire: httpx.AsyncBaseTransport | None = None,
        **changes: Any,
    ) -> FastAPI:
        """Start the planner's server; `executor` replaces the wire to the executor."""
        config = parse(PlannerConfig, tables("planner", self.run, self.folder, bias, **changes))
        to_executor = executor or httpx.ASGITransport(self.executor)  # ty: ignore[invalid-argument-type]
        self.planner = planner_app(config, Wires(wire or httpx.ASGITransport(self.sync), to_executor))
        await self._run(self.planner)
        return self.planner

    async def declare(self, **spec: Any) -> None:
        """Declare the run: small steps, unless the test says otherwise."""
        small = {"steps": 2, "groups_per_step": 2, "rollouts_per_group": 4, "d_max": 2, "seed": 1}
        await self.client.declare_run(self.run, RunSpec(**{**small, **spec}))

    async def finished(self) -> RunStatus:
        """Wait for the run's end."""
        return await self.status_where(lambda status: status.state == "finished")

    async def status_where(self, condition: Any) -> RunStatus:
        """The first status that fulfils `condition`; a server's fault is raised."""
        seen: list[RunStatus] = []

        async def look() -> bool:
            self.raise_fault()
            seen.append(await self.client.status(self.run))
            return bool(condition(seen[-1]))

        await until(look, PATIENCE_S)
        return seen[-1]

    def raise_fault(self) -> None:
        """Raise what a server died of."""
        for app in (self.executor, self.planner):
            if app is not None and getattr(app.state, "fault", None):
                raise app.state.fault

    async def _run(self, app: FastAPI) -> None:
        await self.stack.enter_async_context(LifespanManager(app, startup_timeout=60, shutdown_timeout=60))
        await until(lambda: hasattr(app.state, "parts") or getattr(app.state, "fault", None), PATIENCE_S)


@asynccontextmanager
async def trio(database: str, redis_url: str | None, folder: Path) -> AsyncGenerator[Trio]:
    """A sync service on `database`, and room for the two servers of a run that is named after the folder."""
    config = SyncConfig(auth="loopback", database_url=database, redis_url=redis_url, disk_folder=folder)
    app = sync_app(config)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(LifespanManager(app, startup_timeout=60, shutdown_timeout=60))
        client = await stack.enter_async_context(SyncClient("http://sync", transport=httpx.ASGITransport(app)))
        yield Trio(f"{folder.name}-{sha256(str(folder).encode()).hexdigest()[:8]}", app, client, folder, stack)


@asynccontextmanager
async def http(app: FastAPI) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of one app."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server", timeout=60) as client:
        yield client
