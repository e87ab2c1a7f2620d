"""One run of the planner's real server on a real sync service; the executor's answers are replayed."""

import asyncio
import json
import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil
from asgi_lifespan import LifespanManager
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from planner_server.app import Wires, create_app
from planner_server.config import PlannerConfig
from shared.client import SyncClient
from shared.config import parse
from shared.schemas.run import RunSpec
from sync_service.app import create_app as sync_app
from sync_service.config import SyncConfig
from sync_service.embedded import Services
from tests.parity_environment import NUMBERS, answer, call, save_model
from tests.processes import words

WARM = 2
"""Steps before the measured ones: the first allocations, and a pipeline that is still filling."""
START_S, RUN_S = 90.0, 600.0
TICK_S = 0.01
"""The resolution of processor seconds."""


class Shape(NamedTuple):
    """How much is sampled and trained. The model is a Llama of that size with a vocabulary of some thirty words."""

    name: str
    hidden_size: int
    layers: int
    groups: int
    rollouts_per_group: int
    steps: int
    repeats: int

    @property
    def rollouts(self) -> int:
        """Of one step."""
        return self.groups * self.rollouts_per_group


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("full", 384, 6, 8, 8, 12, 3),
        Shape("quick", 256, 4, 8, 8, 4, 1),
        Shape("smallest", 32, 1, 4, 8, 1, 1),
    )
}


class Step(NamedTuple):
    """Medians over steps: wall time, processor seconds of the sampler and of the trainer; mean staleness of a row."""

    wall_s: float
    sampling_s: float
    training_s: float
    staleness: float

    @property
    def ratio(self) -> float:
        """The wall time, by that of a perfect overlap."""
        return self.wall_s / max(self.sampling_s, self.training_s, TICK_S)


class Moment(NamedTuple):
    """When a step was acked, and the processor seconds of the sampler and the trainer until then."""

    wall_s: float
    sampling_s: float
    training_s: float

    def since(self, earlier: "Moment") -> "Moment":
        """What came between."""
        return Moment(*(b - a for a, b in zip(earlier, self, strict=True)))


class Acks:
    """The sync service, noting each ack. Who asked the service instead would take the two sides' cores from them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.processes: list[psutil.Process] = []
        self.moments: list[Moment] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        await self._app(scope, receive, send)
        if scope["type"] == "http" and scope["path"].endswith(":ack"):
            self.moments.append(Moment(time.perf_counter(), *_seconds(self.processes)))


class Replayed(httpx.AsyncBaseTransport):
    """The wire to an executor whose answers were recorded: to each subtask the same one, at once."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        subtask = json.loads(await request.aread())["subtask"]
        return httpx.Response(200, json={"status": "ok", "answer": subtask, "r_format": 1, "turns": 1})


async def measure(servers: Services, folder: Path, run: str, staleness: int, shape: Shape) -> Step:
    """Train a run of `shape.steps` steps beyond the first ones, and say what one took."""
    spec = RunSpec(
        steps=WARM + shape.steps,
        groups_per_step=shape.groups,
        rollouts_per_group=shape.rollouts_per_group,
        d_max=4,
        staleness=staleness,
        seed=1,
        trained_roles=("planner",),
    )
    await asyncio.to_thread(_model, folder / "model", shape)
    async with _sync(servers, folder) as (sync, client), _planner(folder, run, acks := Acks(sync)) as planner:
        acks.processes = _torch_processes()
        await client.declare_run(run, spec)
        async with asyncio.timeout(RUN_S):
            while len(acks.moments) < spec.steps:
                _raise_fault(planner)
                await asyncio.sleep(0.05)
        steps = await client.steps(run)
    if any(step.outcome != "trained" for step in steps):
        raise RuntimeError("a step had nothing to learn, so it measures nothing")
    spans = [later.since(earlier) for earlier, later in pairwise(acks.moments[WARM - 1 :])]
    stale = statistics.mean(step.statistics["staleness_mean"] for step in steps[WARM:])
    return Step(*(statistics.median(values) for values in zip(*spans, strict=True)), staleness=stale)


def _torch_processes() -> list[psutil.Process]:
    """The planner's sampler and trainer. Each is on one thread: its processor seconds are what it worked."""
    children = psutil.Process().children(recursive=True)
    return [next(child for child in children if kind in words(child)) for kind in ("sampler", "trainer")]


def _seconds(processes: list[psutil.Process]) -> list[float]:
    return [sum(process.cpu_times()[:2]) for process in processes]


def _model(folder: Path, shape: Shape) -> None:
    """It delegates about half of the time, one call a turn, and its answers are right half of the time."""
    bias = {answer(number): 1.0 for number in NUMBERS} | {call("planner", number): 1.2 for number in NUMBERS[:4]}
    save_model(folder, "planner", bias, hidden_size=shape.hidden_size, layers=shape.layers)


@asynccontextmanager
async def _sync(servers: Services, folder: Path) -> AsyncGenerator[tuple[FastAPI, SyncClient]]:
    config = SyncConfig(
        auth="loopback", database_url=servers.database_url, redis_url=servers.redis_url, disk_folder=folder
    )
    app = sync_app(config)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(LifespanManager(app, startup_timeout=START_S, shutdown_timeout=START_S))
        wire = httpx.ASGITransport(app)
        yield app, await stack.enter_async_context(SyncClient("http://sync", transport=wire))


def _raise_fault(app: FastAPI) -> None:
    if fault := getattr(app.state, "fault", None):
        raise fault


@asynccontextmanager
async def _planner(folder: Path, run: str, sync: ASGIApp) -> AsyncGenerator[FastAPI]:
    app = create_app(_config(folder, run), Wires(httpx.ASGITransport(sync), Replayed()))
    async with LifespanManager(app, startup_timeout=START_S, shutdown_timeout=START_S):
        async with asyncio.timeout(START_S):
            while not hasattr(app.state, "parts"):
                _raise_fault(app)
                await asyncio.sleep(0.05)
        yield app


def _config(folder: Path, run: str) -> PlannerConfig:
    return parse(
        PlannerConfig,
        {
            "run": run,
            "worker": "planner-1",
            "auth": "loopback",
            "sync_url": "http://sync",
            "executor_url": "http://executor",
            "folder": folder / "planner",
            "environment": "tests.parity_environment:Parity",
            "limits": {"max_new_tokens": 2, "max_turns": 6, "max_calls": 4, "max_context_tokens": 200},
            "policy": {
                "model": folder / "model",
                "device": "cpu",
                "threads": 1,
                "seed": 1,
                "trainer": {"lr": 1e-6},
            },
        },
    )
