"""What a role's server shows of its policy: nothing while it starts, then its counters."""

from types import SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI

from shared.errors import Unavailable
from shared.http.guard import Guard, guarded
from shared.policy.sampler import TransformersSampler
from shared.policy.types import SamplingParams
from shared.serving.metrics import install_server_metrics

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
    found = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}
    return {name: value for name, value in found.items() if name.startswith(("tandem_sampler", "tandem_trainer"))}


async def test_the_policy_is_shown_once_it_has_started() -> None:
    app = FastAPI(openapi_url=None)
    install_server_metrics(app)
    guarded(app, Guard(None))
    assert await scrape(app) == {}

    child = Child()
    sampler = TransformersSampler(child)  # ty: ignore[invalid-argument-type]
    params = SamplingParams(max_new_tokens=2)
    for _ in range(2):
        await sampler.generate([5], params)
    child.dead = True
    with pytest.raises(Unavailable):
        await sampler.generate([5], params)
    policy = SimpleNamespace(step=3, updates=2, sampler=sampler)
    app.state.parts = SimpleNamespace(policy=policy, submitter=SimpleNamespace(pending=4, refused=1))
    assert await scrape(app) == {
        "tandem_trainer_step": 3,
        "tandem_trainer_updates": 2,
        "tandem_sampler_waiting": 0,
        "tandem_sampler_turns_total": 2,
        "tandem_sampler_tokens_total": 4,
    }
