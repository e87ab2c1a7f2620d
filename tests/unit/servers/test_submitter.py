"""Reports on their way to the sync service: gathered, sent again, marked once they are answered."""

import asyncio
from collections.abc import Sequence

import pytest

from shared.errors import Unavailable
from shared.ids import new_id
from shared.policy.store import TrajectoryStore
from shared.policy.types import Trajectory
from shared.schemas import PolicyVersion
from shared.schemas.rollout import BatchResult, ItemResult, TrajectoryItem, TrajectoryReport
from shared.serving import submitter as module
from shared.serving.submitter import SETTLED, Submitter

VERSION = PolicyVersion(epoch=1, step=0, updates=0)
REPORT = TrajectoryReport(run="r", rollout=new_id(), r_format=0, tokens=2, version=VERSION)


class Service:
    """The batch call; `outcomes` maps an id to what it is answered next."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.faults: list[Exception] = []
        self.outcomes: dict[str, list[ItemResult]] = {}

    async def send(self, items: Sequence[TrajectoryItem]) -> BatchResult:
        self.batches.append([item.id for item in items])
        if self.faults:
            raise self.faults.pop(0)
        return BatchResult(items=tuple(self._one(item.id) for item in items))

    def _one(self, id_: str) -> ItemResult:
        answers = self.outcomes.get(id_)
        return answers.pop(0) if answers else ItemResult(id=id_, status=200, accepted=True)


@pytest.fixture
def store(tmp_path):
    store = TrajectoryStore(tmp_path / "t.sqlite", 2**24)
    yield store
    store.close()


@pytest.fixture
async def running(store: TrajectoryStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    service = Service()
    submitter: Submitter[TrajectoryItem] = Submitter(service.send, store)
    task = asyncio.create_task(submitter.run())
    yield service, submitter
    task.cancel()


async def stored(store: TrajectoryStore) -> TrajectoryItem:
    item = TrajectoryItem(id=new_id(), body=REPORT)
    await store.put(Trajectory(item.id, "r", "executor", [1, 2], [0, 1], [0.0, -1.0], VERSION))
    return item


async def facts_of(store: TrajectoryStore, items: list[TrajectoryItem]) -> list[dict]:
    found = await store.get([item.id for item in items])
    return [found[item.id].facts for item in items]


async def test_what_comes_together_is_one_request(running, store: TrajectoryStore):
    service, submitter = running
    items = [await stored(store) for _ in range(20)]
    for item in items:
        submitter.submit(item, {"report": "r"})
    assert await submitter.flush(5)
    assert service.batches == [[item.id for item in items]]
    facts = await facts_of(store, items)
    assert facts == [{"report": "r", SETTLED: "accepted"}] * 20


async def test_nothing_is_lost_while_the_service_is_away(running, store: TrajectoryStore):
    service, submitter = running
    service.faults = [Unavailable(), Unavailable()]
    first = await stored(store)
    submitter.submit(first, {})
    assert await submitter.flush(5)
    assert service.batches == [[first.id]] * 3
    assert [facts[SETTLED] for facts in await facts_of(store, [first])] == ["accepted"]


async def test_an_item_that_may_be_retried_is_sent_again_alone(running, store: TrajectoryStore):
    service, submitter = running
    good, busy = await stored(store), await stored(store)
    service.outcomes[busy.id] = [ItemResult(id=busy.id, status=503, problem={"detail": "busy"})]
    submitter.submit(good, {})
    submitter.submit(busy, {})
    assert await submitter.flush(5)
    assert service.batches == [[good.id, busy.id], [busy.id]]


async def test_late_and_refused_are_marked_and_not_sent_again(running, store: TrajectoryStore):
    service, submitter = running
    late, refused = await stored(store), await stored(store)
    service.outcomes = {
        late.id: [ItemResult(id=late.id, status=200, accepted=False)],
        refused.id: [ItemResult(id=refused.id, status=409, problem={"detail": "another body"})],
    }
    submitter.submit(late, {})
    submitter.submit(refused, {})
    assert await submitter.flush(5)
    assert len(service.batches) == 1
    assert [facts[SETTLED] for facts in await facts_of(store, [late, refused])] == ["late", "refused"]


async def test_more_than_a_request_holds_is_several(running, store: TrajectoryStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MOST", 3)
    service, submitter = running
    for _ in range(7):
        submitter.submit(TrajectoryItem(id=new_id(), body=REPORT))
    assert await submitter.flush(5)
    assert [len(batch) for batch in service.batches] == [3, 3, 1]
