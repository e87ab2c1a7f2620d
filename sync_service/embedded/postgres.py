"""Postgres on a loopback port: initdb once, then start; what was committed survives kill -9."""

import asyncio
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import psycopg

from shared.errors import UserError
from shared.http.ports import free_port
from sync_service.embedded.account import Account
from sync_service.embedded.binaries import postgres_binaries
from sync_service.embedded.child import Child, tail

USER = "tandem"
PORT_ATTEMPTS = 5
START_S = 60.0
"""Recovery after a crash replays at most a gigabyte of log."""
GONE_S = 60.0
"""A shutdown writes what is in memory."""
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "wal_level": "minimal",  # nobody replicates or archives it
    "max_wal_senders": "0",
    "jit": "off",  # our statements are short: compiling them costs more than it gives
    "timezone": "UTC",
    "log_timezone": "UTC",
}
"""fsync and synchronous_commit stay on, which is the default: an answered write is never lost."""


@asynccontextmanager
async def postgres(home: Path, logs: Path, account: Account) -> AsyncGenerator[str]:
    """Run Postgres on `home/data`; yields its URL, in SQLAlchemy's form for psycopg 3."""
    binaries = await asyncio.to_thread(postgres_binaries, home, account)
    log = logs / "postgres.log"
    data, password = home / "data", home / "password"
    if not data.exists():
        await asyncio.to_thread(_initdb, binaries, data, password, log, account)
    await _gone(data)
    child, port = await _start(binaries, data, password, log, account)
    try:
        yield f"postgresql+psycopg://{USER}:{password.read_text()}@127.0.0.1:{port}/postgres"
    finally:
        await child.stop()


def _initdb(binaries: Path, data: Path, password: Path, log: Path, account: Account) -> None:
    """Make the cluster beside its place and rename it, so that a half-made one is never started."""
    part = data.with_name("data.part")
    shutil.rmtree(part, ignore_errors=True)
    password.write_text(secrets.token_hex(16))
    password.chmod(0o600)
    if account.switch:
        os.chown(password, account.uid, account.gid)
    command = [binaries / "initdb", "-D", part, "-U", USER, "-A", "scram-sha-256", f"--pwfile={password}"]
    with log.open("ab") as out:
        result = subprocess.run(
            [*command, "-E", "UTF8", "--no-locale"], stdout=out, stderr=out, cwd="/", timeout=120, **account.popen()
        )
    if result.returncode:
        raise UserError(f"initdb failed ({log}):\n{tail(log)}")
    part.rename(data)


async def _gone(data: Path) -> None:
    """Wait for a server that lost its parent a moment ago; then drop its lock file, which a recycled pid would keep."""
    lock = data / "postmaster.pid"
    deadline = asyncio.get_running_loop().time() + GONE_S
    while lock.exists() and _serves(lock, data):
        if asyncio.get_running_loop().time() > deadline:
            raise UserError(f"another Postgres runs on {data}")
        await asyncio.sleep(0.05)
    lock.unlink(missing_ok=True)


def _serves(lock: Path, data: Path) -> bool:
    """Whether the process that the lock file names is a Postgres on `data`."""
    try:
        pid = int(lock.read_text().split("\n", 1)[0])
        os.kill(pid, 0)
        return str(data).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return False  # it is not ours, so it cannot run on our data
    except FileNotFoundError:
        return not Path("/proc/self").exists()  # without /proc, believe the pid


async def _start(binaries: Path, data: Path, password: Path, log: Path, account: Account) -> tuple[Child, int]:
    """Start it on a free port; where another process took the port in between, on another one."""
    for _ in range(PORT_ATTEMPTS):
        port = free_port()
        settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
        command = [str(binaries / "postgres"), "-D", str(data), "-p", str(port), *settings]
        child = Child("Postgres", command, log, account, signal.SIGINT)  # its fast shutdown
        try:
            await child.until(partial(_answers, port, password), START_S)
        except BaseException as error:
            await child.stop()
            if not isinstance(error, UserError) or "Address already in use" not in error.detail:
                raise
        else:
            return child, port
    raise UserError(f"Postgres found no free port in {PORT_ATTEMPTS} attempts ({log})")


def _answers(port: int, password: Path) -> bool:
    try:
        psycopg.connect(
            host="127.0.0.1",
            port=port,
            user=USER,
            password=password.read_text(),
            dbname="postgres",
            connect_timeout=2,
        ).close()
    except psycopg.OperationalError:
        return False
    return True
