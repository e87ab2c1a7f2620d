"""Callers that submit one by one: gathered into few requests, and each gets its own outcome or its own error."""

import asyncio
import json
from collections.abc import Callable

import httpx
import pytest

from shared.client import SyncClient, gather
from shared.errors import BodyConflict, BodyTooLarge, DeadlineExceeded, Forbidden, TandemError, Unavailable
from shared.ids import new_id
from shared.schemas import PolicyVersion
from shared.schemas.rollout import RolloutItem, RolloutReport, TrajectoryItem, TrajectoryReport

VERSION = PolicyVersion(epoch=1, step=0, updates=0)


def score() -> TrajectoryItem:
    return TrajectoryItem(
        id=new_id(), body=TrajectoryReport(run="r", rollout=new_id(), r_format=0, tokens=1, version=VERSION)
    )


class Service:
    """Answers batches; `problems` are of single items by id, `forgets` how many at the end have no answer."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, list[str]]] = []
        self.problems: dict[str, TandemError] = {}
        self.forgets = 0
        self.refusal: Callable[[list[str]], TandemError | None] = lambda ids: None

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        ids = [item["id"] for item in json.loads(request.content)["items"]]
        self.requests.append((request.url.path, ids))
        await asyncio.sleep(0)
        if refusal := self.refusal(ids):
            return httpx.Response(refusal.status, json=refusal.problem())
        return httpx.Response(200, json={"items": [self._one(id) for id in ids[: len(ids) - self.forgets]]})

    def _one(self, id: str) -> dict:
        if problem := self.problems.get(id):
            return {"id": id, "status": problem.status, "problem": problem.problem()}
        return {"id": id, "status": 200, "accepted": True}


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
async def sync(service: Service):
    async with SyncClient("http://sync", transport=httpx.MockTransport(service), retry_for_s=0.3) as client:
        yield client


async def test_what_callers_submit_together_is_one_request_a_kind(service: Service, sync: SyncClient):
    report = RolloutReport(run="r", group=new_id(), slot=0, status="aborted", reason="none")
    rollouts = [RolloutItem(id=new_id(), body=report) for _ in range(4)]
    scores = [score() for _ in range(16)]
    calls = [*map(sync.submit_rollout, rollouts), *map(sync.submit_trajectory, scores)]
    outcomes = await asyncio.gather(*calls)
    assert [outcome.id for outcome in outcomes] == [item.id for item in (*rollouts, *scores)]
    assert sorted((path, len(ids)) for path, ids in service.requests) == [
        ("/v1/rollouts:batch", 4),
        ("/v1/trajectories:batch", 16),
    ]


async def test_what_comes_while_requests_are_away_is_gathered_whole(
    service: Service, sync: SyncClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(gather, "MOST", 8)
    items = [score() for _ in range(40)]
    await asyncio.gather(*map(sync.submit_trajectory, items))
    assert [len(ids) for _, ids in service.requests] == [8] * 5
    assert [id for _, ids in service.requests for id in ids] == [item.id for item in items]


async def test_each_caller_has_its_own_error(service: Service, sync: SyncClient):
    items = [score() for _ in range(4)]
    service.problems = {items[1].id: BodyConflict("another body"), items[2].id: Unavailable("no room")}
    good, conflict, busy, also_good = await asyncio.gather(*map(sync.submit_trajectory, items), return_exceptions=True)
    assert (good.accepted, also_good.accepted) == (True, True)
    assert isinstance(conflict, BodyConflict)
    assert isinstance(busy, Unavailable)
    assert len(service.requests) == 1


async def test_a_request_that_fails_fails_for_each_with_an_error_of_its_own(service: Service, sync: SyncClient):
    service.refusal = lambda ids: Forbidden("a key of the planner")
    first, second = await asyncio.gather(
        sync.submit_trajectory(score()), sync.submit_trajectory(score()), return_exceptions=True
    )
    assert isinstance(first, Forbidden)
    assert isinstance(second, Forbidden)
    assert first is not second


async def test_an_answer_of_too_few_items_leaves_nobody_waiting(service: Service, sync: SyncClient):
    service.forgets = 1
    answered, forgotten = await asyncio.gather(
        sync.submit_trajectory(score()), sync.submit_trajectory(score()), return_exceptions=True
    )
    assert answered.accepted
    assert isinstance(forgotten, ValueError)


async def test_a_service_that_stays_away_is_the_deadline_of_each_caller(service: Service, sync: SyncClient):
    service.refusal = lambda ids: Unavailable()
    with pytest.raises(DeadlineExceeded):
        await sync.submit_trajectory(score())


async def test_a_body_that_is_too_large_is_sent_in_parts(service: Service, sync: SyncClient):
    items = [score() for _ in range(5)]
    huge = items[3].id
    service.refusal = lambda ids: BodyTooLarge("too large") if huge in ids else None
    outcomes = await asyncio.gather(*map(sync.submit_trajectory, items), return_exceptions=True)
    assert isinstance(outcomes.pop(3), BodyTooLarge)
    assert [outcome.status for outcome in outcomes] == [200] * 4


async def test_a_caller_that_goes_away_disturbs_nobody(service: Service, sync: SyncClient):
    stays, goes = score(), score()
    waiting = asyncio.create_task(sync.submit_trajectory(stays))
    gone = asyncio.create_task(sync.submit_trajectory(goes))
    await asyncio.sleep(0)
    gone.cancel()
    assert (await waiting).accepted


async def test_a_client_that_is_closed_leaves_nobody_waiting(sync: SyncClient):
    waiting = asyncio.create_task(sync.submit_trajectory(score()))
    await asyncio.sleep(0)
    await sync.close()
    with pytest.raises(Unavailable):
        await waiting
