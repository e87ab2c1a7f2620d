"""People who watch: each logs in as a browser does, and reads the live stream of a run for as long as it is watched."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass

import aiohttp


@dataclass
class Seen:
    """How many frames all of them have read."""

    frames: int = 0


@contextlib.asynccontextmanager
async def watching(url: str, key: str, run: str, count: int, seen: Seen) -> AsyncGenerator[None]:
    """`count` viewers, each of whom has read a frame when this is entered. RuntimeError where one is refused."""
    async with asyncio.TaskGroup() as group, contextlib.AsyncExitStack() as stack:
        tasks, first = [], []
        for _ in range(count):
            session = await stack.enter_async_context(_browser(url))
            await _log_in(session, url, key)
            first.append(asyncio.Event())
            tasks.append(group.create_task(_watch(session, run, seen, first[-1])))
        for event in first:
            await event.wait()
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


def _browser(url: str) -> aiohttp.ClientSession:
    jar = aiohttp.CookieJar(unsafe=True)  # of an address, which has no name
    return aiohttp.ClientSession(url, cookie_jar=jar, timeout=aiohttp.ClientTimeout(total=None, sock_read=60))


async def _log_in(session: aiohttp.ClientSession, url: str, key: str) -> None:
    async with session.post("/login", data={"key": key}, headers={"origin": url}, allow_redirects=False) as answer:
        if answer.status != 303:
            raise RuntimeError(f"the login was answered {answer.status}")


async def _watch(session: aiohttp.ClientSession, run: str, seen: Seen, first: asyncio.Event) -> None:
    async with session.get(f"/runs/{run}/live") as answer:
        if answer.status != 200:
            raise RuntimeError(f"the live stream was answered {answer.status}")
        async for line in answer.content:
            if line.startswith(b"event:"):
                seen.frames += 1
                first.set()
    raise RuntimeError("a live stream ended while it was watched")
