"""Redis under the users of deploy/redis/users.acl: the doorbell rings, and nothing else can be done."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, NoPermissionError
from redis.exceptions import ConnectionError as NotThereYet

from shared.http.ports import free_port
from sync_service.doorbell import Doorbell
from sync_service.embedded.account import server_account
from sync_service.embedded.binaries import valkey_binary
from tests.integration.deploy.compose import stack
from tests.waiting import until

FORBIDDEN = [
    ("EVAL", "return 1", "0"),
    ("FUNCTION", "LIST"),
    ("SCRIPT", "FLUSH"),
    ("SET", "a", "b"),
    ("GET", "a"),
    ("KEYS", "*"),
    ("FLUSHALL",),
    ("CONFIG", "GET", "*"),
    ("ACL", "LIST"),
    ("MODULE", "LIST"),
    ("SHUTDOWN",),
    ("SUBSCRIBE", "another"),
    ("PUBLISH", "another", "x"),
]


@pytest.fixture
async def url(made: Path, tmp_path: Path) -> AsyncGenerator[str]:
    """A Valkey as compose.yaml runs it, on a port of its own; the URL that the sync service has."""
    binary = valkey_binary(tmp_path, server_account())
    if binary is None:
        pytest.skip("there is no Valkey or Redis binary")
    _, *words = stack("control")["services"]["redis"]["command"]
    port = free_port()
    replaced = {"6379": str(port), "/tmp": str(tmp_path), "/run/secrets/redis_users": str(made / "control/redis_users")}
    arguments = [replaced.get(word, word) for word in words]
    process = await asyncio.create_subprocess_exec(
        binary, *arguments, "--bind", "127.0.0.1", stdout=asyncio.subprocess.DEVNULL
    )
    address = (made / "control" / "redis_url").read_text().strip()
    try:
        ours = address.replace("@redis:6379", f"@127.0.0.1:{port}")
        await until(lambda: answers(ours))
        yield ours
    finally:
        process.terminate()
        await process.wait()


async def answers(url: str) -> bool:
    try:
        async with Redis.from_url(url) as redis:
            return await redis.ping()
    except NotThereYet:
        return False


async def test_the_doorbell_works_and_needs_nothing_that_it_may_not(url: str):
    bell = Doorbell(url, poll_s=3600, poll_with_redis_s=3600)
    task = asyncio.create_task(bell.run())
    try:
        await until(lambda: bell.connected)
        with bell.listening("museum") as waiter:
            bell.ring(["museum"])
            await until(waiter._event.is_set)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("words", FORBIDDEN, ids=" ".join)
async def test_nothing_else_is_allowed(url: str, words: tuple[str, ...]):
    async with Redis.from_url(url) as redis:
        with pytest.raises(NoPermissionError):
            await redis.execute_command(*words)


async def test_who_has_no_password_is_refused(url: str):
    async with Redis.from_url(f"redis://{url.rpartition('@')[2]}") as redis:
        with pytest.raises(AuthenticationError):
            await redis.ping()
