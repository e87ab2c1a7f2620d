"""The sync service as its real process, with its embedded Postgres and Valkey or on the database of another one."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import aiohttp

from shared.http.key_file import line_of
from shared.http.keys import new_key
from shared.http.ports import free_port
from sync_service.embedded.account import server_account
from sync_service.embedded.child import tail
from sync_service.embedded.home import server_home

START_S = 60.0
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Running:
    """Where a service answers, its process, and the database under it (in psycopg's form)."""

    url: str
    pid: int
    database_url: str
    keys: dict[str, str]
    """The text of one key for each role."""


@asynccontextmanager
async def embedded_service(folder: Path) -> AsyncGenerator[Running]:
    """A service with servers of its own in `folder`, which must be empty."""
    keys = _make_keys(folder)
    async with _process(["--embedded", str(folder), "--keys-file", str(folder / "keys")], folder) as (url, pid):
        home = server_home(folder, server_account())
        port = (home / "data" / "postmaster.pid").read_text().splitlines()[3]
        password = (home / "password").read_text()
        yield Running(url, pid, f"postgresql://tandem:{password}@127.0.0.1:{port}/postgres", keys)


@asynccontextmanager
async def polling_service(other: Running, folder: Path) -> AsyncGenerator[Running]:
    """A service without any Redis, on the database of another one."""
    async with _process(["--database-url", other.database_url], folder) as (url, pid):
        yield Running(url, pid, other.database_url, other.keys)


def _make_keys(folder: Path) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    made = {role: new_key(role) for role in ("planner", "executor", "operator", "viewer")}
    (folder / "keys").write_text("".join(f"{line_of(key)}\n" for _, key in made.values()))
    return {role: text for role, (text, _) in made.items()}


def _log_file(log: Path) -> BinaryIO:
    log.parent.mkdir(parents=True, exist_ok=True)
    return log.open("wb")


@asynccontextmanager
async def _process(arguments: Sequence[str], folder: Path) -> AsyncGenerator[tuple[str, int]]:
    port, log = free_port(), folder / "service.log"
    with _log_file(log) as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "sync_service", "--port", str(port), *arguments, cwd=ROOT, stdout=out, stderr=out
        )
    try:
        url = f"http://127.0.0.1:{port}"
        await _ready(url, process, log)
        yield url, process.pid
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 40)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _ready(url: str, process: asyncio.subprocess.Process, log: Path) -> None:
    async with aiohttp.ClientSession(url) as session, asyncio.timeout(START_S):
        while True:
            if process.returncode is not None:
                raise RuntimeError(f"the service ended at its start:\n{tail(log)}")
            try:
                async with session.get("/readyz") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)
