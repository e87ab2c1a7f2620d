"""One root task owns a server: its first fault is said and stops the process; a stop is bounded."""

import asyncio

import pytest
from asgi_lifespan import LifespanManager
from fastapi import FastAPI

from shared.errors import Unavailable, UserError
from shared.http import lifespan as module
from shared.http.lifespan import rooted
from tests.waiting import until


def app(root) -> FastAPI:
    return FastAPI(lifespan=lambda app: rooted(app, root))


async def test_a_loop_that_dies_is_the_fault_and_asks_for_a_stop():
    async def dies() -> None:
        raise Unavailable("the trainer process was killed by signal 9")

    async def root() -> None:
        async with asyncio.TaskGroup() as loops:
            loops.create_task(dies())
            loops.create_task(asyncio.Event().wait())

    stopped = []
    server = app(root)
    server.state.stop = lambda: stopped.append(True)
    async with LifespanManager(server):
        await until(lambda: stopped)
    assert server.state.fault.detail == "the trainer process was killed by signal 9"


async def test_a_fault_at_the_start_is_the_same():
    async def root() -> None:
        raise UserError("there is no model folder /nowhere")

    server = app(root)
    async with LifespanManager(server):
        await until(lambda: getattr(server.state, "fault", None))
    assert isinstance(server.state.fault, UserError)


async def test_a_stop_cancels_the_root_and_waits_for_it():
    ended = []

    async def root() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    server = app(root)
    async with LifespanManager(server):
        await asyncio.sleep(0)
    assert ended == [True]
    assert not hasattr(server.state, "fault")


async def test_a_root_that_does_not_end_is_left_behind(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "STOP_S", 0.01)
    go = asyncio.Event()

    async def root() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    async with LifespanManager(app(root)):
        await asyncio.sleep(0)
    go.set()
