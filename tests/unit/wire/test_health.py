"""Health: named checks, which nobody can make expensive."""

import asyncio

import httpx
from fastapi import FastAPI

from shared.http.health import install_health


async def test_however_many_ask_at_once_the_checks_run_once():
    app, looks = FastAPI(), []

    async def database() -> str | None:
        looks.append(1)
        await asyncio.sleep(0)
        return "it does not answer"

    install_health(app, {"database": database})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://x") as http:
        app.state.guard = None
        answers = await asyncio.gather(*[http.get("/readyz") for _ in range(20)])
        assert [answer.status_code for answer in answers] == [503] * 20
        assert len(looks) < 20
        before = len(looks)
        assert (await http.get("/readyz")).json()["checks"] == {"database": "it does not answer"}
        assert len(looks) == before + 1
