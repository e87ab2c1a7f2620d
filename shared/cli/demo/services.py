"""The three servers as processes on one machine: start, wait until they answer, watch, stop in order."""

import asyncio
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import tomli_w

from shared.cli.demo.keys import RunKeys
from shared.cli.demo.settings import Settings, run_name
from shared.client import SyncClient
from shared.errors import NotFound, UserError
from shared.http.ports import free_port
from shared.process import Service, tail
from shared.schemas import Role

START_S = 120.0


class ServerDied(UserError):
    """A server ended while it was needed."""


@dataclass(frozen=True, slots=True)
class Urls:
    """Where each server listens."""

    sync: str
    planner: str
    executor: str


class Services:
    """An async context manager: all answer `/readyz` when it is entered, and have stopped when it is left.

    A team without an executor has no executor server.
    """

    def __init__(self, folder: Path, settings: Settings, models: dict[Role, Path]) -> None:
        self._folder = folder
        self._settings = settings
        self._models = models
        self.keys = RunKeys(folder, run_name(folder))
        self._running: list[Service] = []
        ports = (settings.demo.sync_port, settings.demo.planner_port, settings.demo.executor_port)
        host = settings.demo.host
        self.epochs: dict[Role, int] = {}
        """Those that the streams had before this start's trainers, which raise them when they resume."""
        self.urls = Urls(*(f"http://{host}:{port or free_port(host)}" for port in ports))

    async def __aenter__(self) -> "Services":
        self.keys.make()
        try:
            self._start("sync service", self._sync_command(), "sync")
            await self._ready("sync service", self.urls.sync)
            self.epochs = await self._epochs()
            for role in reversed(self._settings.roles):
                self._start(f"{role} server", self._role_command(role), role)
            for role in reversed(self._settings.roles):
                await self._ready(f"{role} server", getattr(self.urls, role))
        except BaseException:
            await self._stop()
            raise
        return self

    def watch_command(self) -> str:
        """A command that shows where the run stands."""
        words = ["tandem", "status", run_name(self._folder), "--url", self.urls.sync]
        return shlex.join([*words, "--key-file", str(self.keys.file("viewer"))])

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    def check(self) -> None:
        """ServerDied, with the end of its log, where a server has ended."""
        for service in self._running:
            if service.exit_code is not None:
                raise ServerDied(service.obituary())

    def _start(self, name: str, command: list[str], log: str) -> None:
        service = Service(name, command, self._folder / "logs" / f"{log}.log")
        self._running.append(service)

    async def _ready(self, name: str, url: str) -> None:
        deadline = asyncio.get_running_loop().time() + START_S
        async with httpx.AsyncClient(base_url=url, timeout=5.0) as http:
            while asyncio.get_running_loop().time() < deadline:
                self.check()
                try:
                    if (await http.get("/readyz")).is_success:
                        return
                except httpx.TransportError:
                    pass
                await asyncio.sleep(0.1)
        log = next(service.log for service in self._running if service.name == name)
        raise ServerDied(f"the {name} was not ready within {START_S:.0f} s; the end of {log}:\n{tail(log)}")

    async def _epochs(self) -> dict[Role, int]:
        async with SyncClient(self.urls.sync, key=self.keys.text("operator")) as sync:
            try:
                status = await sync.status(run_name(self._folder))
            except NotFound:  # not declared yet
                return {}
        return {role: stream.epoch for role, stream in status.roles.items()}

    async def _stop(self) -> None:
        """The planner first: it is what calls the others."""
        for service in reversed(self._running):
            await asyncio.to_thread(service.stop)
        self._running.clear()

    def _sync_command(self) -> list[str]:
        url = httpx.URL(self.urls.sync)
        command = [sys.executable, "-m", "sync_service", "--host", url.host, "--port", str(url.port)]
        command += ["--keys-file", str(self.keys.hashes)]
        texts = [f"text_key_file={self.keys.file('viewer')}"]
        demo = self._settings.demo
        if demo.database_url is None:
            return [*command, "--embedded", str(self._folder / "database"), *texts]
        redis = ["--redis-url", demo.redis_url] if demo.redis_url else []
        return [*command, "--database-url", demo.database_url, *redis, *texts]

    def _role_command(self, role: Role) -> list[str]:
        return [sys.executable, "-m", f"{role}_server", "--config", str(self.write_config(role))]

    def write_config(self, role: Role) -> Path:
        """The server's own configuration file, from its section and what the conductor knows.

        UserError for a key that the conductor sets: it would be ignored.
        """
        url = httpx.URL(getattr(self.urls, role))
        own = self._settings.section(role)
        policy = own.get("policy", {})
        ours: dict[str, Any] = {
            "run": run_name(self._folder),
            "host": url.host,
            "port": url.port,
            "keys_file": str(self.keys.hashes),
            "sync_url": self.urls.sync,
            "sync_key_file": str(self.keys.file(role)),
            "folder": str(self._folder / role),
            "worker": f"{role}-1",
            "environment": self._settings.demo.environment,
            "environment_options": self._settings.demo.environment_options,
        }
        if role == "planner" and self._settings.team == "pair":
            ours["executor_url"] = self.urls.executor
            ours["executor_key_file"] = str(self.keys.file(role))
        for name in own.keys() & ours.keys():
            raise UserError(f"{role}.{name} is no setting of a demo, which sets it itself")
        if isinstance(policy, dict):
            if "model" in policy:
                raise UserError(f"{role}.policy.model is no setting of a demo: it is warmup.models.{role}")
            ours["policy"] = {**policy, "model": str(self._models[role])}
        path = self._folder / f"{role}.toml"
        path.write_text(tomli_w.dumps({**own, **ours}))
        return path


def check_configuration(folder: Path, settings: Settings, models: dict[Role, Path]) -> None:
    """Let both servers validate their sections before anything long starts; UserError with the first fault."""
    services = Services(folder, settings, models)

    def check(role: Role) -> str | None:
        command = [sys.executable, "-m", f"{role}_server", "--config", str(services.write_config(role)), "--check"]
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
            start_new_session=True,  # Ctrl-C is ours, and no fault of the configuration
        )
        lines = result.stderr.strip().splitlines() or [f"{role}: its configuration was refused"]
        return lines[-1] if result.returncode else None

    with ThreadPoolExecutor(len(settings.roles)) as pool:
        for fault in filter(None, pool.map(check, settings.roles)):
            raise UserError(fault)
