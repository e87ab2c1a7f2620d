"""`/healthz`: the process runs. `/readyz`: each named check passes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from shared.http.guard import OPEN

Check = Callable[[], Awaitable[str | None]]
"""None where all is well, else what is wrong."""


def install_health(app: FastAPI, checks: Mapping[str, Check]) -> None:
    """Add both routes to `app`. Nobody needs a key for them, so the checks run once at a time, however many ask."""
    looking: asyncio.Task[dict[str, str | None]] | None = None

    async def look() -> dict[str, str | None]:
        return {name: await check() for name, check in checks.items()}

    @app.get("/healthz", dependencies=[OPEN])
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz", dependencies=[OPEN])
    async def readyz() -> JSONResponse:
        nonlocal looking
        if looking is None or looking.done():
            looking = asyncio.create_task(look())
        faults = await asyncio.shield(looking)
        ready = all(fault is None for fault in faults.values())
        body = {"ready": ready, "checks": {name: fault or "ok" for name, fault in faults.items()}}
        return JSONResponse(body, 200 if ready else 503)
