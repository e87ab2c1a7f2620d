"""What a role's server shows: nothing of its policy while it starts, then its counters, its steps, its work."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from shared.errors import Unavailable
from shared.http.guard import Guard, guarded
from shared.policy.sampler import TransformersSampler
from shared.policy.types import SamplingParams
from shared.schemas import PolicyVersion
from shared.schemas.stream import Ack
from shared.serving.metrics import install_server_metrics
from shared.serving.progress import Progress
from shared.serving.step_metrics import StepMetrics

VERSION = {"epoch": 1, "step": 2, "updates": 2}


class Child:
    """A sampler's process that answers with two tokens, or has died."""

    def __init__(self) -> None:
        self.dead = False

    async def call(self, *_: object) -> dict:
        if self.dead:
            raise Unavailable
        return {"token_ids": [1, 2], "logprobs": [-0.5, -0.5], "version": VERSION, "finish": "stop", "spans": []}


async def scrape(app: FastAPI) -> dict[str, float]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://x") as http:
        lines = (await http.get("/metrics")).text.splitlines()
    found = (line.rpartition(" ") for line in lines if line[0] != "#")
    own = re.compile(r'(tandem_[a-z_]+){(.*,)?role="planner",run="r"(?:,(.*))?}')
    return {
        ",".join(filter(None, (match[1], (match[2] or "").rstrip(","), match[3]))): float(value)
        for name, _, value in found
        if (match := own.fullmatch(name))
    }


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    app = FastAPI(openapi_url=None)
    policy = SimpleNamespace(store=SimpleNamespace(max_bytes=4096))
    install_server_metrics(app, SimpleNamespace(run="r", folder=tmp_path, policy=policy), "planner")  # ty: ignore
    guarded(app, Guard(None))
    return app


async def test_the_policy_is_shown_once_it_has_started(app: FastAPI, tmp_path: Path) -> None:
    assert await scrape(app) == {}

    child = Child()
    sampler = TransformersSampler(child)  # ty: ignore[invalid-argument-type]
    params = SamplingParams(max_new_tokens=2)
    for _ in range(2):
        await sampler.generate([5], params)
    child.dead = True
    with pytest.raises(Unavailable):
        await sampler.generate([5], params)
    file = tmp_path / "trajectories.sqlite"
    file.write_bytes(b"some")
    policy: Any = SimpleNamespace(step=3, updates=2, sampler=sampler, store=SimpleNamespace(path=file))
    member: Any = SimpleNamespace(run="r", role="planner", version=lambda: PolicyVersion(**VERSION))
    app.state.metrics.show(policy, SimpleNamespace(pending=4, refused=1), member)
    assert await scrape(app) == {
        "tandem_trainer_step": 3,
        "tandem_trainer_updates": 2,
        "tandem_sampler_epoch": 1,
        "tandem_sampler_step": 2,
        "tandem_sampler_updates": 2,
        "tandem_sampler_waiting": 0,
        "tandem_sampler_turns_total": 2,
        "tandem_sampler_tokens_total": 4,
        "tandem_reports_pending": 4,
        "tandem_reports_refused_total": 1,
        "tandem_store_bytes": 4,
        "tandem_store_limit_bytes": 4096,
    }


async def test_the_last_step_is_shown_and_all_steps_are_added_up(app: FastAPI) -> None:
    progress = app.state.metrics.progress([])
    statistics = {"reward_mean": 0.5, "groups": 4, "groups_dead": 1, "trained_tokens": 30, "seconds": 2.5}
    progress.acked(ack(1, statistics, fates={"trained": 6, "dead-group": 2}))
    progress.acked(ack(2, {"groups": 4, "groups_dead": 4}, fates={"dead-group": 8}, outcome="skipped"))
    progress.lost()
    found = await scrape(app)
    assert "tandem_step_reward_mean" not in found, "the last step had none"
    expected = {
        "tandem_step_dead_groups": 4,
        'tandem_steps_total,outcome="trained"': 1,
        'tandem_steps_total,outcome="skipped"': 1,
        "tandem_trained_groups_total": 8,
        "tandem_trained_dead_groups_total": 5,
        "tandem_trained_tokens_total": 30,
        "tandem_trainer_busy_seconds_total": 2.5,
        'tandem_trained_rows_total,fate="dead-group"': 10,
        "tandem_lost_steps_total": 1,
    }
    assert {name: found[name] for name in expected} == expected


def test_the_parts_of_a_step_add_up_to_the_loops_whole_time() -> None:
    now = [0.0]
    progress = Progress(StepMetrics(CollectorRegistry(), "r", "planner"), [], "planner", clock=lambda: now[0])
    assert progress.seconds() == {}
    for seconds, part in ((0, "wait"), (3, "train"), (5, "ack"), (1, "wait")):
        now[0] += seconds
        progress.enter(part)
    now[0] += 2
    assert progress.seconds() == {"wait": 5, "train": 5, "ack": 1}


async def test_work_is_counted_while_it_goes_on_and_by_how_it_ended(app: FastAPI) -> None:
    flights = app.state.metrics.flights("rollout")
    with flights.one() as first:
        first.outcome = "reported"
        with flights.one():
            assert (await scrape(app))["tandem_rollouts_in_flight"] == 2
        assert (await scrape(app))["tandem_rollout_busy_seconds_total"] > 0
    found = await scrape(app)
    assert found["tandem_rollouts_in_flight"] == 0
    assert found['tandem_rollouts_total,outcome="reported"'] == 1
    assert found['tandem_rollouts_total,outcome="failed"'] == 1, "nobody said how it ended"
    assert found["tandem_rollout_seconds_count"] == 2


def ack(step: int, statistics: dict, fates: dict, outcome: Any = "trained") -> Ack:
    return Ack(
        epoch=1, step=step, outcome=outcome, updates=1, fates={}, statistics=statistics, histograms={"fates": fates}
    )
