"""`tandem eval`, on a planner server that the sync service knows."""

import pytest
from fastapi import FastAPI, Request

from shared.schemas.stream import Heartbeat
from tests.integration.cli.command import Tandem
from tests.integration.sync.builder import Builder
from tests.listening import listening


def planner(state: str) -> FastAPI:
    """Answers as the planner server does: running, then its end."""
    app, asked = FastAPI(), {}

    def view(id: str, state: str, **result: object) -> dict:
        return {"id": id, "request": asked[id], "state": state, "done": 2, **result}

    @app.put("/v1/evaluations/{id}")
    async def start(id: str, request: Request) -> dict:
        asked[id] = await request.json()
        return view(id, "running")

    @app.get("/v1/evaluations/{id}")
    async def get(id: str) -> dict:
        if state == "failed":
            return view(id, "failed", reason="the executor \x1b[31mfailed")
        correct = {"correct": [1.0, 0.0, 1.0, 1.0], "planner_format": [1, 1, 1, 0], "calls": [2, 1, 0, 1]}
        return view(id, "done", accuracy=0.75, executor_format_rate=1.0, by_kind={"1 hop": 0.75}, **correct)

    return app


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.cli.evaluate.POLL_S", 0.01)


async def test_accuracy_has_its_interval(build: Builder, operator: Tandem):
    await build.declare()
    assert "no planner server that is alive" in (await operator("eval")).fault
    async with listening(planner("done")) as url:
        await build.client.heartbeat("r1", "planner-1", Heartbeat(role="planner", url=url))
        words = ("eval", "r1", "--n", "4", "--temperature", "0", "--planner-checkpoint", "step-3")
        text, found = (await operator(*words)).out, (await operator(*words, "--json")).json
    assert "0.750 [0.301, 0.954]" in text  # Wilson's, of 3 in 4
    assert "planner step-3, executor live" in text
    assert found["interval"]["low"] == pytest.approx(0.3006, abs=1e-4)
    assert found["request"]["temperature"] == 0


async def test_one_that_fails_and_a_wrong_request_are_one_line(operator: Tandem):
    async with listening(planner("failed")) as url:
        failed = await operator("eval", "--planner-url", url)
    assert failed.code == 2
    assert failed.err.splitlines()[-1] == "tandem: the evaluation failed: the executor failed"
    assert "temperature" in (await operator("eval", "--temperature", "0.001")).fault
    assert "split" in (await operator("eval", "--split", "moon")).fault
