"""Requests to the executor."""

from typing import Any

import httpx

from shared.ids import new_id
from shared.schemas.invocation import InvocationRequest


def request(run: str, **changes: Any) -> InvocationRequest:
    """A delegation in `run`."""
    fields = {"run": run, "rollout": new_id(), "index": 0, "subtask": "1", "task_id": "train-1-0"}
    return InvocationRequest(**fields | changes)


async def put(client: httpx.AsyncClient, invocation: str, body: InvocationRequest) -> httpx.Response:
    """Send it."""
    return await client.put(f"/v1/invocations/{invocation}", content=body.model_dump_json())
