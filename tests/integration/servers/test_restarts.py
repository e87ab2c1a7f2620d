"""Killed and started again: a step is trained once, a slot is brought to its end once, and a death is said."""

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import tomli_w
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.http.ports import free_port
from shared.process import Service
from tests.listening import listening
from tests.parity_environment import call
from tests.processes import words
from tests.waiting import until

from .test_walking_slice import facts
from .trio import Trio, answers, calls, tables, trio

ROOT = Path(__file__).parents[3]
EXIT_LIMIT_S = 60.0


class Gate:
    """The sync service, but acks of the executor are held and never arrive while it is shut."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.shut = True
        self.held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.shut and scope["type"] == "http" and scope["path"].endswith("/executor:ack"):
            self.held += 1
            await asyncio.Event().wait()
        await self._app(scope, receive, send)


class Processes:
    """The planner's and the executor's server as processes, as a user starts them."""

    def __init__(self, servers: Trio, sync_url: str) -> None:
        self._folder = servers.folder
        self._run = servers.run
        self._sync_url = sync_url
        self._ports = {"planner": free_port(), "executor": free_port()}
        self.running: dict[str, Service] = {}

    def start(self, role: Any, bias: dict[str, float], **changes: Any) -> Service:
        config = tables(role, self._run, self._folder, bias, port=self._ports[role], sync_url=self._sync_url, **changes)
        if role == "planner":
            config["executor_url"] = f"http://127.0.0.1:{self._ports['executor']}"
        file = self._folder / f"{role}.toml"
        file.write_text(tomli_w.dumps(plain(config)))
        command = [sys.executable, "-m", f"{role}_server", "--config", str(file)]
        log = self._folder / f"{role}.log"
        self.running[role] = Service(role, command, log, {"PYTHONPATH": str(ROOT)})
        return self.running[role]

    def check(self) -> None:
        for service in self.running.values():
            assert service.exit_code is None, service.obituary()

    def stop(self) -> None:
        for service in self.running.values():
            service.stop()


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return str(value) if isinstance(value, Path) else value


def ended(service: Service) -> int:
    """The exit code of a process that must end."""
    deadline = time.monotonic() + EXIT_LIMIT_S
    while service.exit_code is None:
        assert time.monotonic() < deadline, f"{service.name} does not end"
        time.sleep(0.05)
    return service.exit_code


@pytest.mark.timeout(300)
async def test_a_trainer_killed_between_its_checkpoint_and_its_ack_trains_the_step_once(
    postgres_url: str, redis_url: str, tmp_path: Path
):
    """And a server whose trainer dies says so and ends; one that is told to stop ends with 0."""
    every_step = {"policy": {"checkpoints": {"every": 1, "keep_last": 5}}}
    executor_bias = {**answers(), **calls("executor")}
    async with trio(postgres_url, redis_url, tmp_path) as servers:
        gate = Gate(servers.sync)
        async with listening(gate) as url:
            processes = Processes(servers, url)
            try:
                executor = processes.start("executor", executor_bias, **every_step)
                planner = processes.start("planner", {**answers(), **calls("planner")})
                await servers.declare(steps=2, rollouts_per_group=8)

                async def both_steps_are_rolled_out() -> bool:
                    processes.check()
                    groups = (await servers.client.status(servers.run)).groups
                    return gate.held == 1 and groups == {"complete": 4}

                await until(both_steps_are_rolled_out, 120)
                checkpoint = tmp_path / "executor" / "checkpoints" / "step-1" / "model.safetensors"
                saved = checkpoint.stat().st_mtime_ns
                children = psutil.Process(executor.pid).children(recursive=True)
                psutil.Process(executor.pid).kill()
                assert ended(executor) == -signal.SIGKILL
                assert psutil.wait_procs(children, timeout=EXIT_LIMIT_S)[1] == []
                assert (await servers.client.status(servers.run)).roles["executor"].acked_step == 0

                gate.shut = False
                executor = processes.start("executor", executor_bias, **every_step)

                async def finished() -> bool:
                    processes.check()
                    return (await servers.client.status(servers.run)).state == "finished"

                await until(finished, 120)
                steps = [s for s in await servers.client.steps(servers.run) if s.role == "executor"]
                assert [(s.step, s.epoch) for s in steps] == [(1, 1), (2, 2)]
                assert steps[0].updates <= 1  # none where all of the step's rewards came out equal
                assert steps[1].updates - steps[0].updates <= 1
                assert checkpoint.stat().st_mtime_ns == saved

                trainer = next(p for p in psutil.Process(planner.pid).children(recursive=True) if "trainer" in words(p))
                trainer.kill()
                assert await asyncio.to_thread(ended, planner) == 1
                assert "planner-server: the trainer process was killed by signal 9" in planner.log.read_text()
                psutil.Process(executor.pid).terminate()
                assert await asyncio.to_thread(ended, executor) == 0
                assert "Traceback" not in executor.log.read_text()
            finally:
                await asyncio.to_thread(processes.stop)


class Blocked(httpx.AsyncBaseTransport):
    """An executor that never answers."""

    def __init__(self) -> None:
        self.waiting = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.waiting += 1
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_restarted_planner_goes_on_with_its_open_groups(postgres_url: str, redis_url: str, tmp_path: Path):
    bias = {**answers(), call("planner", 1): 1.3}
    spec = {"steps": 2, "rollouts_per_group": 8, "trained_roles": ("planner",)}
    async with trio(postgres_url, redis_url, tmp_path) as servers:
        await servers.declare(**spec)
        blocked = Blocked()
        await servers.start_planner(bias, executor=blocked)
        half = await servers.status_where(lambda status: blocked.waiting and status.rollouts.get("reported", 0) >= 1)
    assert half.groups.get("open")
    before = set(facts(tmp_path / "planner"))
    async with trio(postgres_url, redis_url, tmp_path) as servers:
        await servers.start_executor(answers(2.0), trains=False)
        await servers.start_planner(bias)
        status = await servers.finished()
    after = facts(tmp_path / "planner")
    assert status.groups == {"complete": 4}
    assert status.rollouts == {"reported": 32}
    assert before < set(after)
    assert len(after) == 32
