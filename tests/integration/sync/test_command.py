"""`python -m sync_service`: starts, serves, stops; a mistake is one line."""

import asyncio
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from shared.client import SyncClient
from shared.schemas.run import RunSpec
from sync_service.__main__ import main
from tests.waiting import until


@pytest.fixture
def folder() -> Generator[Path]:
    """A folder that the servers' account can walk to."""
    with tempfile.TemporaryDirectory(prefix="tandem-test-") as path:
        Path(path).chmod(0o755)
        yield Path(path)


@pytest.fixture
def port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that the command ends with."""
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("sync_service: ")
    return line


@asynccontextmanager
async def service(port: int, *arguments: str) -> AsyncGenerator[subprocess.Popen]:
    """The service as a process that answers `/readyz`; stopped afterwards."""
    process = _start("--auth", "loopback", "--port", str(port), *arguments)
    try:
        await until(lambda: process.poll() is not None or _ready(port))
        assert process.poll() is None
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def _start(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-m", "sync_service", *arguments])


def _ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5.0).is_success
    except httpx.TransportError:
        return False


async def test_it_serves_on_its_own_database_and_finds_its_data_again_after_kill_9(folder: Path, port: int) -> None:
    spec = RunSpec(steps=2)
    async with service(port, "--embedded", str(folder)) as process, SyncClient(f"http://127.0.0.1:{port}") as client:
        await client.declare_run("r1", spec)
        process.kill()
        await asyncio.to_thread(process.wait, 30)
    async with service(port, "--embedded", str(folder)) as process, SyncClient(f"http://127.0.0.1:{port}") as client:
        assert (await client.run("r1")).spec == spec
    assert process.returncode == 0


async def test_a_stop_answers_who_waits_and_does_not_wait_for_them(folder: Path, port: int) -> None:
    url = f"http://127.0.0.1:{port}"
    async with (
        service(port, "--embedded", str(folder)) as process,
        SyncClient(url) as client,
        httpx.AsyncClient(base_url=url, timeout=60) as http,
        http.stream("GET", "/v1/events", headers={"accept": "text/event-stream"}) as stream,
    ):
        await client.declare_run("r1", RunSpec(steps=9))
        asked = asyncio.create_task(client.status("r1", open_step=9, wait_s=60.0))
        polled = asyncio.create_task(http.get("/v1/events?after=99&wait=60"))
        await until(lambda: {"tandem_sync_waits 2.0", "tandem_sync_event_streams 1.0"} <= _metrics(url))
        process.send_signal(signal.SIGTERM)
        assert (await asked).open_through == 2
        assert (await polled).json() == {"items": [], "after": 99}
        assert any([line.startswith("id: ") async for line in stream.aiter_lines()])
        await asyncio.to_thread(process.wait, 30)
    assert process.returncode == 0


def _metrics(url: str) -> set[str]:
    return set(httpx.get(f"{url}/metrics", timeout=5.0).text.splitlines())


async def test_it_serves_on_a_database_that_is_given_once_it_is_migrated(postgres_url: str, port: int) -> None:
    plain = postgres_url.replace("+psycopg", "")
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute("CREATE DATABASE given")
    url = f"{plain.rsplit('/', 1)[0]}/given"
    for _ in range(2):
        assert await asyncio.to_thread(main, ["migrate", "--database-url", url]) == 0
    async with service(port, "--database-url", url), SyncClient(f"http://127.0.0.1:{port}") as client:
        await client.declare_run("r1", RunSpec(steps=2))
        assert (await client.run("r1")).state == "declared"


def test_a_port_in_use_is_one_line_and_starts_no_database(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert f"127.0.0.1:{port}" in fails(capsys, "--port", str(port), "--embedded", str(folder / "db"))
    assert not (folder / "db").exists()


def test_no_database_is_one_line(
    port: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TANDEM_DATABASE_URL", raising=False)
    assert "--embedded" in fails(capsys, "--port", str(port))
    assert "cannot be used" in fails(capsys, "migrate", "--database-url", "nonsense")
    monkeypatch.setenv("TANDEM_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    assert "cannot be used" in fails(capsys, "migrate")


@pytest.mark.parametrize("url", ["nonsense", "mysql://h/d", "sqlite:///d", "postgresql://me:secret@h:port/d"])
def test_an_url_of_no_postgres_is_one_line_that_does_not_repeat_it(
    port: int, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    line = fails(capsys, "serve", "--port", str(port), "--database-url", url)
    assert "postgresql://" in line
    assert url not in line


def test_an_address_that_is_none_is_one_line(port: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "65535" in fails(capsys, "--port", "65536", "--embedded", str(folder / "db"))
    given = ("--port", str(port), "--database-url", "postgresql://nobody@127.0.0.1:1/none")
    assert "Redis" in fails(capsys, *given, "--redis-url", "nonsense")
    (folder / "redis").write_text("nonsense\n")
    assert "redis://HOST" in fails(capsys, *given, "--redis-url-file", str(folder / "redis"))
    assert "no such file" in fails(capsys, *given, "--redis-url-file", str(folder / "gone")).lower()


def test_a_folder_that_cannot_be_made_is_one_line(port: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "file").touch()
    assert "cannot be made" in fails(capsys, "--port", str(port), "--embedded", str(folder / "file"))


def test_a_setting_that_is_wrong_is_one_line(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("serve", "--port", str(port), "--database-url", "postgresql://nobody@127.0.0.1:1/none")
    assert "keep_run_days: unknown key" in fails(capsys, *given, "keep_run_days=90")
    assert "keep_runs_days" in fails(capsys, *given, "keep_runs_days=-1")
    assert "--auth" in fails(capsys, *given, "auth=loopback")
