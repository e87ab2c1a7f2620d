"""Reports on their way to the sync service: kept first, gathered, sent again, removed once they are acknowledged."""

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest

from shared.errors import Forbidden, Overloaded, Unavailable
from shared.ids import new_id
from shared.policy.store import TrajectoryStore
from shared.policy.types import Trajectory
from shared.schemas import PolicyVersion
from shared.schemas.rollout import BatchResult, ItemResult, TrajectoryItem, TrajectoryReport
from shared.serving import spool as spooling
from shared.serving import submitter as module
from shared.serving.spool import Spool
from shared.serving.submitter import Submitter

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
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    return Service()


@pytest.fixture
def submitter(service: Service, store: TrajectoryStore) -> Submitter[TrajectoryItem]:
    return Submitter(service.send, TrajectoryItem, store)


@pytest.fixture
async def running(submitter: Submitter[TrajectoryItem]):
    task = asyncio.create_task(submitter.run())
    yield submitter
    task.cancel()


def item() -> TrajectoryItem:
    return TrajectoryItem(id=new_id(), body=REPORT)


async def stored(submitter: Submitter, store: TrajectoryStore) -> TrajectoryItem:
    """An item that is submitted with its trajectory."""
    one = item()
    trajectory = Trajectory(one.id, "r", "executor", [1, 2], [0, 1], [0.0, -1.0], VERSION)
    await submitter.submit(one, partial(store.put, trajectory))
    return one


async def waiting(store: TrajectoryStore) -> list[str]:
    return [id for id, _ in await Spool(store.writer).waiting()]


async def test_what_comes_together_is_one_request(service: Service, submitter: Submitter, store: TrajectoryStore):
    items = [await stored(submitter, store) for _ in range(20)]
    assert await waiting(store) == [one.id for one in items]
    sending = asyncio.create_task(submitter.run())
    assert await submitter.flush(60)
    sending.cancel()
    assert service.batches == [[one.id for one in items]]
    assert await waiting(store) == []
    assert len(await store.unreleased("r")) == 20


async def test_what_was_not_acknowledged_is_sent_in_order_after_a_restart(
    service: Service, submitter: Submitter, store: TrajectoryStore
):
    items = [await stored(submitter, store) for _ in range(5)]
    later: Submitter[TrajectoryItem] = Submitter(service.send, TrajectoryItem, store)
    await later.recover()
    sending = asyncio.create_task(later.run())
    assert await later.flush(60)
    sending.cancel()
    assert service.batches == [[one.id for one in items]]


async def test_nothing_is_lost_while_the_service_is_away(service: Service, running: Submitter, store: TrajectoryStore):
    service.faults = [Unavailable(), Unavailable()]
    first = await stored(running, store)
    assert await running.flush(60)
    assert service.batches == [[first.id]] * 3
    assert await waiting(store) == []


async def test_an_item_that_may_be_retried_is_sent_again_alone(
    service: Service, submitter: Submitter, store: TrajectoryStore
):
    good, busy = await stored(submitter, store), await stored(submitter, store)
    service.outcomes[busy.id] = [ItemResult(id=busy.id, status=503, problem={"detail": "busy"})]
    sending = asyncio.create_task(submitter.run())
    assert await submitter.flush(60)
    sending.cancel()
    assert service.batches == [[good.id, busy.id], [busy.id]]
    assert submitter.refused == 0


async def test_what_is_refused_for_good_is_kept_apart_and_blocks_nobody(
    service: Service, submitter: Submitter, store: TrajectoryStore
):
    late, refused, good = [await stored(submitter, store) for _ in range(3)]
    service.outcomes = {
        late.id: [ItemResult(id=late.id, status=200, accepted=False)],
        refused.id: [ItemResult(id=refused.id, status=409, problem={"detail": "another body"})],
    }
    sending = asyncio.create_task(submitter.run())
    assert await submitter.flush(60)
    sending.cancel()
    assert await waiting(store) == []
    assert await Spool(store.writer).refusals() == [(refused.id, {"detail": "another body"})]
    assert submitter.refused == 1
    assert [trajectory.id for trajectory in await store.unreleased("r")] == [good.id]
    assert sum(refused.id in batch for batch in service.batches) == 1


async def test_a_report_that_this_version_cannot_read_is_kept_apart(
    service: Service, submitter: Submitter, store: TrajectoryStore
):
    await Spool(store.writer).keep("old", '{"id": "old"}')
    kept = item()
    await Spool(store.writer).keep(kept.id, kept.model_dump_json())
    await submitter.recover()
    assert await waiting(store) == [kept.id]
    ((id, problem),) = await Spool(store.writer).refusals()
    assert (id, problem["type"], submitter.refused) == ("old", "urn:tandem:invalid-input", 1)


async def test_a_key_that_is_refused_ends_the_loop_and_loses_nothing(
    service: Service, submitter: Submitter, store: TrajectoryStore
):
    service.faults = [Forbidden("a key of another run")]
    one = await stored(submitter, store)
    with pytest.raises(Forbidden, match="another run"):
        await submitter.run()
    assert await waiting(store) == [one.id]


async def test_a_full_spool_says_so_and_stores_nothing(
    submitter: Submitter, store: TrajectoryStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(spooling, "MOST_WAITING", 2)
    kept = [await stored(submitter, store) for _ in range(2)]
    with pytest.raises(Overloaded, match="2 reports wait for the sync service"):
        await stored(submitter, store)
    with pytest.raises(Overloaded):
        await submitter.submit(item())
    assert await waiting(store) == [one.id for one in kept]
    assert [trajectory.id for trajectory in await store.unreleased("r")] == [one.id for one in kept]


async def test_only_the_last_refused_ones_are_kept(store: TrajectoryStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spooling, "MOST_REFUSED", 2)
    spool = Spool(store.writer)
    for name in ("a", "b", "c"):
        await spool.keep(name, "{}")
        await spool.refused(name, {})
    assert [id for id, _ in await spool.refusals()] == ["b", "c"]


async def test_more_than_a_request_holds_is_several(
    service: Service, submitter: Submitter, store: TrajectoryStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MOST", 3)
    for _ in range(7):
        await submitter.submit(item())
    sending = asyncio.create_task(submitter.run())
    assert await submitter.flush(60)
    sending.cancel()
    assert [len(batch) for batch in service.batches] == [3, 3, 1]
