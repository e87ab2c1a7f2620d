"""The embedded servers: real ones, whose data outlive whatever ends them, and which end with their parent."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import psutil
import psycopg
import pytest

from shared.errors import UserError
from sync_service.embedded import Services, embedded
from sync_service.embedded.account import server_account
from sync_service.embedded.home import server_home
from tests.waiting import until

PROGRAM = """
import asyncio, sys
from pathlib import Path
from sync_service.embedded import embedded

async def main():
    async with embedded(Path(sys.argv[1])) as services:
        print(services.database_url, services.redis_url, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder that the servers' account can walk to, which pytest's own is not."""
    with tempfile.TemporaryDirectory(prefix="tandem-test-") as path:
        Path(path).chmod(0o755)
        yield Path(path)


def connect(services_or_url: Services | str) -> psycopg.Connection:
    """A connection to an embedded Postgres."""
    url = services_or_url if isinstance(services_or_url, str) else services_or_url.database_url
    return psycopg.connect(url.replace("+psycopg", ""), autocommit=True)


def servers(folder: Path) -> list[psutil.Process]:
    """The server processes whose data are under `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(folder) in part for part in process.cmdline()) and process.name() != "python":
                found.append(process)
        except psutil.Error:
            continue
    return [process for process in found if process.pid != os.getpid()]


async def test_the_same_folder_is_the_same_data_and_nobody_runs_afterwards(folder: Path) -> None:
    async with embedded(folder) as services:
        with connect(services) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
            for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                assert connection.execute(f"SHOW {setting}").fetchone() == ("on",)
            assert connection.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
    assert servers(folder) == []
    async with embedded(folder) as services:
        with connect(services) as connection:
            assert connection.execute("SELECT value FROM kept").fetchone() == (7,)


async def test_a_password_is_needed(folder: Path) -> None:
    async with embedded(folder) as services:
        head, _, place = services.database_url.replace("+psycopg", "").rpartition("@")
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"{head.rsplit(':', 1)[0]}:wrong@{place}")
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"{head.rsplit(':', 1)[0]}@{place}")


async def test_one_process_uses_a_folder_at_a_time(folder: Path) -> None:
    async with embedded(folder):
        with pytest.raises(UserError, match="another process runs its database in"):
            async with embedded(folder):
                pass


def start_program(folder: Path) -> subprocess.Popen[str]:
    """Another process that runs the servers of `folder`, and prints their URLs."""
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.parametrize("victim", ["parent", "postgres"])
async def test_what_was_committed_survives_kill_9(folder: Path, victim: str) -> None:
    program = start_program(folder)
    try:
        assert program.stdout is not None
        url = (await asyncio.to_thread(program.stdout.readline)).split()[0]
        with connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
            if victim == "postgres":
                (postmaster,) = [p for p in servers(folder) if "-D" in p.cmdline()]
                os.kill(postmaster.pid, signal.SIGKILL)
            else:
                program.kill()
        if victim == "parent":
            await until(lambda: not servers(folder))
    finally:
        program.kill()
        program.wait(timeout=30)
    await until(lambda: not servers(folder))
    async with embedded(folder) as services:
        with connect(services) as connection:
            assert connection.execute("SELECT value FROM kept").fetchone() == (7,)


async def test_a_stale_lock_file_whose_pid_lives_on_as_another_process_is_no_obstacle(folder: Path) -> None:
    async with embedded(folder):
        pass
    data = server_home(folder, server_account()) / "data"
    (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n0\n0\n\n127.0.0.1\n\nready\n")
    async with embedded(folder) as services:
        connect(services).close()


async def test_a_server_that_does_not_start_says_why_in_its_last_lines(folder: Path) -> None:
    async with embedded(folder):
        pass
    data = server_home(folder, server_account()) / "data"
    (data / "PG_VERSION").write_text("11\n")
    with pytest.raises(UserError, match=r"Postgres ended at its start(.|\n)*not compatible"):
        async with embedded(folder):
            pass
    assert servers(folder) == []


async def test_a_half_made_database_is_made_again(folder: Path) -> None:
    home = server_home(folder, server_account())
    (home / "data.part").mkdir()
    (home / "data.part" / "PG_VERSION").write_text("18\n")
    async with embedded(folder) as services:
        connect(services).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to run its servers under another account")
async def test_roots_private_folder_gets_its_data_where_the_servers_account_can_go(folder: Path) -> None:
    private = folder / "private" / "run"
    private.mkdir(parents=True)
    private.parent.chmod(0o700)
    for _ in range(2):
        async with embedded(private) as services:
            with connect(services) as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS kept (value int)")
    elsewhere = (private / "servers").readlink()
    assert elsewhere.parent == Path("/var/tmp")
    shutil.rmtree(elsewhere)
    with pytest.raises(UserError, match="is gone"):
        async with embedded(private):
            pass
