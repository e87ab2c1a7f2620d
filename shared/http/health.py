"""`/healthz`: the process runs. `/readyz`: each named check passes."""

from collections.abc import Awaitable, Callable, Mapping

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from shared.http.guard import OPEN

Check = Callable[[], Awaitable[str | None]]
"""None where all is well, else what is wrong."""


def install_health(app: FastAPI, checks: Mapping[str, Check]) -> None:
    """Add both routes to `app`."""

    @app.get("/healthz", dependencies=[OPEN])
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz", dependencies=[OPEN])
    async def readyz() -> JSONResponse:
        faults = {name: await check() for name, check in checks.items()}
        ready = all(fault is None for fault in faults.values())
        body = {"ready": ready, "checks": {name: fault or "ok" for name, fault in faults.items()}}
        return JSONResponse(body, 200 if ready else 503)
