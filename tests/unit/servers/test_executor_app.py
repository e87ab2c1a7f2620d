"""The executor's root task and its route, up to where they meet the policy."""

from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from executor_server import app as module
from executor_server.app import Parts, create_app, serve_run
from executor_server.invocations import Invocations
from shared.errors import Unavailable
from shared.http.admission import AdmissionConfig
from shared.ids import new_id
from shared.policy.store import TrajectoryStore
from shared.schemas.invocation import InvocationRequest
from shared.serving.metrics import ServerMetrics
from shared.serving.sinks import MetricsConfig


async def test_an_invocation_for_another_run_is_a_conflict(tmp_path: Path):
    config: Any = SimpleNamespace(run="ours", folder=tmp_path, keys_file=None, admission=AdmissionConfig())
    unused: Any = None
    app = create_app(config)
    app.state.parts = Parts(config, unused, Invocations(unused, 1.0), unused)
    body = InvocationRequest(run="theirs", rollout=new_id(), index=0, subtask="s", task_id="t").model_dump_json()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://executor") as client:
        answer = await client.put(f"/v1/invocations/{new_id()}", content=body)
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:tandem:conflict")
    assert answer.json()["detail"] == "this server works for run ours, not theirs"


async def test_no_invocation_is_taken_before_the_unscored_ones_of_the_past_are_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    app, asked = FastAPI(), []
    store = TrajectoryStore(tmp_path / "t.sqlite", 2**20)

    async def unreleased(run: str) -> list[Any]:
        asked.append((run, hasattr(app.state, "parts")))
        raise Unavailable("seen enough")

    @asynccontextmanager
    async def station(*_: Any):
        monkeypatch.setattr(store, "unreleased", unreleased)
        policy = SimpleNamespace(store=store, sampler=None, checkpoints=SimpleNamespace(hold=None))
        sync = SimpleNamespace(submit_trajectories=None)
        member = SimpleNamespace(drain=None)
        yield SimpleNamespace(policy=policy, sync=sync, member=member, environment=None, chat=None, toolbox=None)

    monkeypatch.setattr(module, "station", station)
    config: Any = SimpleNamespace(
        run="r", folder=tmp_path, metrics=MetricsConfig(), limits=None, sampling=None, invocation_deadline_s=1.0
    )
    app.state.metrics = ServerMetrics(config, "executor")
    with pytest.raises(Unavailable, match="seen enough"):
        await serve_run(app, config, None)
    store.close()
    assert asked == [("r", False)]
