"""A role's stream as its trainer sees it: in order, renewed, given up in time, resumed from the last checkpoint."""

import asyncio
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from shared import stream as stream_module
from shared.client import SyncClient
from shared.errors import BodyConflict, LeaseLost, Overloaded, StreamHeld, TandemError
from shared.policy.checkpoints import Checkpoint
from shared.policy.types import StepAbandoned
from shared.schemas import PolicyVersion
from shared.schemas.stream import Ack
from shared.stream import Delivery, Stream
from tests.waiting import until

from .stream_service import CHECKSUM, StreamService


class Weights:
    """Weights that are a step number; every call is written down."""

    def __init__(self) -> None:
        self.checkpoint: Checkpoint | None = None
        self.log: list[str] = []

    def latest(self) -> Checkpoint | None:
        return self.checkpoint

    async def restore(self, checkpoint: Checkpoint | None) -> None:
        self.log.append(f"restore {checkpoint.step if checkpoint else 0}")

    async def checksum(self) -> str:
        return CHECKSUM

    async def load_sampler(self, version: PolicyVersion) -> str:
        self.log.append(f"load {version.epoch}.{version.step}")
        return CHECKSUM

    def save(self, step: int, ack: Ack) -> None:
        self.checkpoint = Checkpoint(f"step-{step}", Path(f"step-{step}"), step, step, CHECKSUM, ack)


@pytest.fixture
def service() -> StreamService:
    return StreamService()


@pytest.fixture
def weights() -> Weights:
    return Weights()


@pytest.fixture
async def stream(service: StreamService, weights: Weights):
    async with (
        SyncClient("http://sync", transport=service.transport) as sync,
        SyncClient("http://sync", transport=service.transport) as renewals,
    ):
        yield Stream(sync, renewals, run="r", role="planner", worker="w", weights=weights)


def ack(delivery: Delivery) -> Ack:
    return Ack(epoch=delivery.epoch, step=delivery.step, outcome="trained", updates=delivery.step, fates={})


async def train(stream: Stream, trained: list[tuple[int, int]] | None = None) -> None:
    """Every step, in the order of `planner_server/train.py`; notes epoch and step of those that the weights took."""
    async with asyncio.TaskGroup() as background:
        async for delivery in stream.deliveries():
            async with delivery:
                if not await delivery.may_step():
                    raise StepAbandoned("the lease may be over")
                if trained is not None:
                    trained.append((delivery.epoch, delivery.step))
                await delivery.ack(ack(delivery))
                delivery.confirm(delivery.step, background)


async def test_each_step_is_acked_then_loaded_then_published(stream: Stream, service: StreamService, weights: Weights):
    await train(stream)
    assert [name for name in service.names() if name != "lease"] == ["resume", "publish", *["ack", "publish"] * 2]
    assert service.names().count("lease") == 3
    assert weights.log == ["restore 0", "load 1.0", "load 1.1", "load 1.2"]
    assert [body["path"].rpartition("/")[2] for body in service.bodies("publish")] == ["1.0", "1.1", "1.2"]
    assert stream.version == PolicyVersion(epoch=1, step=2, updates=2)


async def test_a_refused_ack_loads_and_publishes_nothing_and_resumes(
    stream: Stream, service: StreamService, weights: Weights
):
    service.refuse["ack"] = [LeaseLost()]
    trained = []
    await train(stream, trained)
    assert trained == [(1, 1), (2, 1), (2, 2)]
    assert weights.log == ["restore 0", "load 1.0", "restore 0", "load 2.0", "load 2.1", "load 2.2"]


class SlowWeights(Weights):
    """The samplers take nothing but the initial weights until they are told to, and then fail with `fault`."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.fault: Exception | None = None

    async def load_sampler(self, version: PolicyVersion) -> str:
        if version.step:
            await self.go.wait()
        if version.step and self.fault:
            raise self.fault
        return await super().load_sampler(version)


@pytest.fixture
def slow() -> SlowWeights:
    return SlowWeights()


@pytest.fixture
async def slow_stream(service: StreamService, slow: SlowWeights):
    async with SyncClient("http://sync", transport=service.transport) as sync:
        yield Stream(sync, sync, run="r", role="planner", worker="w", weights=slow)


async def test_a_version_is_loaded_beside_the_next_gradient_and_before_the_next_optimiser_step(
    slow_stream: Stream, service: StreamService, slow: SlowWeights
):
    async with asyncio.TaskGroup() as background:
        async for delivery in slow_stream.deliveries():
            async with delivery:
                if delivery.step == 2:
                    assert service.names() == ["resume", "publish", "lease", "ack", "lease"]
                    stepping = asyncio.create_task(delivery.may_step())
                    acking = asyncio.create_task(delivery.ack(ack(delivery)))
                    await until(lambda: len(service.bodies("renew")) >= 1)
                    assert not stepping.done()
                    slow.go.set()
                    assert await stepping
                    await acking
                else:
                    await delivery.ack(ack(delivery))
                delivery.confirm(delivery.step, background)
    assert service.names()[4:7] == ["lease", "publish", "ack"]


async def test_a_version_that_cannot_be_loaded_ends_the_loop_that_waits_for_its_next_batch(
    slow: SlowWeights, service: StreamService
):
    leases = 0

    async def answer(request: httpx.Request) -> httpx.Response:
        nonlocal leases
        if request.url.path.endswith(":lease") and (leases := leases + 1) == 2:
            slow.fault = BodyConflict("other weights")
            slow.go.set()
            await asyncio.Event().wait()
        return await service.transport.handle_async_request(request)

    async with SyncClient("http://sync", transport=httpx.MockTransport(answer)) as sync:
        with pytest.RaisesGroup(BodyConflict):
            await train(Stream(sync, sync, run="r", role="planner", worker="w", weights=slow))
    assert service.names() == ["resume", "publish", "lease", "ack"]


async def test_a_version_whose_lease_is_lost_meanwhile_gives_the_next_step_up(
    slow_stream: Stream, service: StreamService, slow: SlowWeights
):
    """And the weights go back to the checkpoint only when nothing reads them any more."""
    trained = []
    training = asyncio.create_task(train(slow_stream, trained))
    await until(lambda: service.names()[-2:] == ["ack", "lease"])
    service.refuse["publish"] = [LeaseLost()]
    slow.go.set()
    await training
    assert trained == [(1, 1), (2, 1), (2, 2)]
    assert slow.log == ["restore 0", "load 1.0", "load 1.1", "restore 0", "load 2.0", "load 2.1", "load 2.2"]


async def test_it_resumes_from_the_last_checkpoint_with_the_ack_that_may_never_have_gone_out(
    stream: Stream, service: StreamService, weights: Weights
):
    pending = Ack(epoch=7, step=1, outcome="trained", updates=1, fates={})
    weights.save(1, pending)
    async for delivery in stream.deliveries():
        async with delivery:
            await delivery.ack(ack(delivery))
    (resumed,) = service.bodies("resume")
    assert (resumed["step"], resumed["updates"], resumed["checksum"]) == (1, 1, CHECKSUM)
    assert Ack.model_validate(resumed["pending_ack"]) == pending
    assert [body["step"] for body in service.bodies("ack")] == [2]


async def test_a_lease_that_was_lost_while_waiting_resumes(stream: Stream, service: StreamService):
    service.refuse["lease"] = [LeaseLost()]
    async for delivery in stream.deliveries():
        async with delivery:
            await delivery.ack(ack(delivery))
    assert service.names()[:5] == ["resume", "publish", "lease", "resume", "publish"]


async def test_a_held_stream_is_waited_for(stream: Stream, service: StreamService, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stream_module, "HELD_POLL_S", 0.0)
    service.refuse["resume"] = [StreamHeld(), StreamHeld()]
    async for delivery in stream.deliveries():
        async with delivery:
            await delivery.ack(ack(delivery))
    assert service.names()[:4] == ["resume", "resume", "resume", "publish"]
    assert service.acked == 2


async def test_an_abandoned_step_ends_quietly_and_is_trained_under_the_next_epoch(
    stream: Stream, service: StreamService
):
    trained = []
    async for delivery in stream.deliveries():
        async with delivery:
            if delivery.epoch == 1:
                raise StepAbandoned("the guard said no")
            trained.append(delivery.step)
            await delivery.ack(ack(delivery))
    assert trained == [1, 2]
    assert service.bodies("release") == []


async def test_a_failure_releases_the_step_with_an_error_and_passes_on(stream: Stream, service: StreamService):
    async def train() -> None:
        async for delivery in stream.deliveries():
            async with delivery:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await train()
    (released,) = service.bodies("release")
    assert released["error"] == "trainer-failed"


async def test_a_stop_that_was_asked_for_is_no_failed_attempt(stream: Stream, service: StreamService):
    entered = asyncio.Event()

    async def train() -> None:
        async for delivery in stream.deliveries():
            async with delivery:
                entered.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(train())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (released,) = service.bodies("release")
    assert released["error"] is None


async def test_still_ours_until_seven_tenths_of_the_lease(service: StreamService, weights: Weights):
    now = [0.0]
    async with SyncClient("http://sync", transport=service.transport) as sync:
        stream = Stream(sync, sync, run="r", role="planner", worker="w", weights=weights, clock=lambda: now[0])
        async for delivery in stream.deliveries():
            async with delivery:
                now[0] += 699.0
                assert delivery.still_ours()
                now[0] += 2.0
                assert not delivery.still_ours()
            break


@pytest.mark.parametrize(("answer", "ours"), [(None, True), (LeaseLost(), False)])
async def test_a_renewal_keeps_the_lease_and_a_refused_one_loses_it(
    service: StreamService, weights: Weights, answer: LeaseLost | None, ours: bool
):
    service.ttl_s = 0.05
    service.refuse["renew"] = [answer] if answer else []
    async with SyncClient("http://sync", transport=service.transport) as sync:
        stream = Stream(sync, sync, run="r", role="planner", worker="w", weights=weights)
        async for delivery in stream.deliveries():
            async with delivery:
                await until(lambda: len(service.bodies("renew")) >= (1 if answer else 3))
                await until(lambda held=delivery: held.still_ours() is ours)
            break


def renewing() -> list[str]:
    """The renewal tasks that are alive."""
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("renew-")]


async def test_the_lease_is_renewed_while_the_resumed_weights_are_loaded(
    stream: Stream, service: StreamService, weights: Weights, monkeypatch: pytest.MonkeyPatch
):
    async def slow_load(version: PolicyVersion) -> str:
        await until(lambda: len(service.bodies("renew")) >= 3)
        return CHECKSUM

    monkeypatch.setattr(weights, "load_sampler", slow_load)
    service.ttl_s, service.steps = 0.05, 0
    assert [delivery.step async for delivery in stream.deliveries()] == []
    assert service.names() == ["resume", "publish", "lease"]
    assert {body["epoch"] for body in service.bodies("renew")} == {1}


async def test_the_lease_is_renewed_while_the_next_delivery_is_waited_for(service: StreamService, weights: Weights):
    async def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith(":lease"):
            before = len(service.bodies("renew"))
            await until(lambda: len(service.bodies("renew")) >= before + 3)
        return await service.transport.handle_async_request(request)

    service.ttl_s = 0.05
    async with SyncClient("http://sync", transport=httpx.MockTransport(answer)) as sync:
        stream = Stream(sync, sync, run="r", role="planner", worker="w", weights=weights)
        async for delivery in stream.deliveries():
            async with delivery:
                await delivery.ack(ack(delivery))
    assert service.names() == ["resume", "publish", *["lease", "ack"] * 2, "lease"]


async def test_one_renewal_an_epoch_and_none_after_the_end(stream: Stream, service: StreamService):
    service.refuse["ack"] = [LeaseLost()]
    async for delivery in stream.deliveries():
        async with delivery:
            await until(lambda: renewing() == ["renew-planner"])
            await delivery.ack(ack(delivery))
    assert service.epoch == 2
    await until(lambda: not renewing())


@pytest.mark.parametrize("error", [LeaseLost(), BodyConflict()])
async def test_a_version_that_is_not_confirmed_ends_the_lease(
    stream: Stream, service: StreamService, error: TandemError
):
    service.refuse["publish"] = [error]
    with suppress(BodyConflict):
        async for delivery in stream.deliveries():
            async with delivery:
                await delivery.ack(ack(delivery))
    assert service.epoch == (2 if isinstance(error, LeaseLost) else 1)
    await until(lambda: not renewing())


async def test_a_renewal_that_fails_is_tried_again(stream: Stream, service: StreamService):
    service.ttl_s = 0.05
    service.refuse["renew"] = [TandemError(), Overloaded()]
    async for delivery in stream.deliveries():
        async with delivery:
            await until(lambda: len(service.bodies("renew")) >= 4)
            await until(delivery.still_ours)
            await delivery.ack(ack(delivery))
    assert service.epoch == 1
