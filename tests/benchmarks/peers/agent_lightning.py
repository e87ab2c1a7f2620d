"""agent-lightning's store server, in memory, driven over HTTP: a rollout, its five spans and its end, a request each.

A consumer beside it waits for the rollouts of each group and reads their spans, as its training loop does. The client
is ours, which costs less than theirs.
"""

import asyncio
import json
import os
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from shared.http.ports import free_port
from tests.benchmarks.sync.wire import Wire

START_S = 90.0
SPANS = 5


async def measure(environment: Path, log: Path, groups: int, slots: int, clients: int) -> float:
    """Rollouts a second, until the consumer has read the last."""
    async with _server(environment, log) as url:
        return await _drive(url, groups, slots, clients)


@asynccontextmanager
async def _server(environment: Path, log: Path) -> AsyncGenerator[str]:
    port = free_port()
    command = [environment / "bin" / "agl", "store", "--host", "127.0.0.1", "--port", str(port), "--backend", "memory"]
    with log.open("wb") as out:
        environ = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        process = await asyncio.create_subprocess_exec(*command, stdout=out, stderr=out, env=environ)
    url = f"http://127.0.0.1:{port}"
    try:
        await _ready(url)
        yield url
    finally:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _ready(url: str) -> None:
    async with asyncio.timeout(START_S), aiohttp.ClientSession(url) as session:
        while True:
            try:
                async with session.get("/v1/agl/health") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)


async def _drive(url: str, groups: int, slots: int, clients: int) -> float:
    done: asyncio.Queue[list[str]] = asyncio.Queue()
    left = iter(range(groups))
    async with Wire(url, None, 2 * clients) as wire:

        async def produce() -> None:
            for group in left:
                await done.put([await _rollout(wire, f"task-{group}") for _ in range(slots)])

        async def consume() -> None:
            for _ in range(groups):
                ids = await done.get()
                await wire.call("POST", "/v1/agl/waits/rollouts", {"rollout_ids": ids, "timeout": 10})
                for id in ids:
                    found = await wire.call("POST", "/v1/agl/spans/search", {"rollout_id": id})
                    assert len(found["items"]) == SPANS

        started = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(consume())
            for _ in range(clients):
                tasks.create_task(produce())
        return groups * slots / (time.monotonic() - started)


async def _rollout(wire: Wire, task: str) -> str:
    begun = await wire.call("POST", "/v1/agl/rollouts", {"input": {"task": task}, "mode": "train"})
    rollout, attempt = begun["rollout_id"], begun["attempt"]["attempt_id"]
    for number in range(SPANS):
        await wire.send("POST", "/v1/agl/spans", json.dumps(_span(rollout, attempt, number)).encode())
    await wire.call("POST", f"/v1/agl/rollouts/{rollout}/attempts/{attempt}", {"status": "succeeded"})
    return rollout


def _span(rollout: str, attempt: str, number: int) -> dict:
    """A score: of the planner the first, of the executor the others."""
    now = time.time()
    return {
        "rollout_id": rollout,
        "attempt_id": attempt,
        "sequence_id": number + 1,
        "trace_id": secrets.token_hex(16),
        "span_id": secrets.token_hex(8),
        "parent_id": None,
        "name": "executor" if number else "planner",
        "status": {"status_code": "OK"},
        "attributes": {"r_format": 1, "r_expert": 0.5, "tokens": 321},
        "events": [],
        "links": [],
        "start_time": now,
        "end_time": now,
        "context": None,
        "parent": None,
        "resource": {"attributes": {}, "schema_url": ""},
    }
