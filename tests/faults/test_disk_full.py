"""The database's disk is full: writes answer 507 and store nothing, reads go on, and room is enough to recover."""

import os
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import httpx
import psycopg
import pytest
from asgi_lifespan import LifespanManager

from shared.client import SyncClient
from shared.errors import DeadlineExceeded
from sync_service import migrate
from sync_service.app import create_app
from sync_service.config import SyncConfig
from sync_service.embedded.account import server_account
from tests.integration.sync.builder import Builder

SIZE_MB = 24
BATCH = 400
IMPATIENT_S = 3.0
"""Time for an answer on a busy machine, and for a few more."""


@pytest.fixture
def small_disk() -> Generator[Path]:
    """A tmpfs of a few megabytes that Postgres may write to."""
    with tempfile.TemporaryDirectory(prefix="tandem-test-") as folder:
        Path(folder).chmod(0o755)
        disk = Path(folder) / "disk"
        account = server_account()
        account.make_folder(disk)
        options = f"size={SIZE_MB}m,uid={account.uid},gid={account.gid},mode=700"
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)], capture_output=True)
        if mounted.returncode:
            pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.decode().strip()}")
        try:
            yield disk
        finally:
            subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def on_small_disk(postgres_url: str, small_disk: Path) -> Generator[str]:
    """A migrated database whose tables, but not whose log, are on the small disk."""
    plain = postgres_url.replace("+psycopg", "")
    with psycopg.connect(plain, autocommit=True) as server:
        server.execute(f"CREATE TABLESPACE small LOCATION '{small_disk}'".encode())
        server.execute("CREATE DATABASE small TABLESPACE small")
        url = postgres_url.rpartition("/")[0] + "/small"
        try:
            migrate.upgrade(url)
            yield url
        finally:
            server.execute("DROP DATABASE small WITH (FORCE)")
            server.execute("DROP TABLESPACE small")


@pytest.fixture
async def service(on_small_disk: str, tmp_path: Path) -> AsyncGenerator[Builder]:
    """The service on it."""
    config = SyncConfig(auth="loopback", database_url=on_small_disk, reaper_s=3600, poll_s=0.05, disk_folder=tmp_path)
    app = create_app(config)
    async with LifespanManager(app):
        transport = httpx.ASGITransport(app=app)
        async with SyncClient("http://sync", transport=transport) as client:
            yield Builder(app, client)


def fill(disk: Path) -> Path:
    """Leave no room; the file that takes it."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        os.posix_fallocate(file.fileno(), 0, free)
    return ballast


async def test_writes_are_507_until_there_is_room(service: Builder, small_disk: Path) -> None:
    await service.declare(steps=40, staleness=39, rollouts_per_group=BATCH)
    group = await service.open()
    ballast = fill(small_disk)
    rollouts = [service.rollout(group, slot, calls=4) for slot in range(BATCH)]
    body = {"items": [item.model_dump(mode="json") for item in rollouts]}
    transport = httpx.ASGITransport(app=service.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://sync") as bare:
        refused = await bare.post("/v1/rollouts:batch", json=body)
    assert (refused.status_code, refused.json()["type"]) == (507, "urn:tandem:storage-full")
    assert refused.json()["retryable"]
    assert refused.headers["retry-after"] == "1"
    async with SyncClient("http://sync", transport=transport, retry_for_s=IMPATIENT_S) as client:
        with pytest.raises(DeadlineExceeded, match="full"):
            await client.submit_rollouts(rollouts)
    assert (await service.client.status(service.run)).rollouts == {}

    ballast.unlink()
    await service.report(*rollouts)
    assert (await service.client.status(service.run)).rollouts == {"reported": BATCH}
