"""`shared.stream.Stream`, as a role's server runs it, on the real service: taken over, failed, dead, skipped, twice."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack

import httpx
import pytest

from shared import stream as module
from shared.client import SyncClient
from shared.policy.checkpoints import Checkpoint
from shared.policy.types import StepAbandoned
from shared.schemas import PolicyVersion
from shared.schemas.base import Page
from shared.schemas.stream import Ack
from shared.schemas.views import DeliveryRow
from shared.stream import Delivery, Stream
from tests.integration.sync.builder import Builder, checksum, owned
from tests.waiting import until

TTL_S = 1000.0
"""No lease runs out by itself: the tests let them."""


class Weights:
    """Weights that are the list of steps in them; nothing is ever saved."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.loaded: list[str] = []
        self.restored = 0

    def latest(self) -> Checkpoint | None:
        return None

    async def restore(self, checkpoint: Checkpoint | None) -> None:
        self.steps = []
        self.restored += 1

    async def checksum(self) -> str:
        return checksum(str(self.steps))

    async def load_sampler(self, version: PolicyVersion) -> str:
        self.loaded.append(f"{version.epoch}.{version.step}")
        return await self.checksum()


Step = Callable[[Delivery], Awaitable[None]]


class Trainer:
    """A server's training loop with weights of paper. `during` runs in each step, before the optimiser's."""

    def __init__(self, clients: list[SyncClient], run: str, worker: str, during: Step | None = None) -> None:
        self.weights = Weights()
        self.now = 0.0
        self.guarded = True
        self.stream = Stream(
            *clients, run=run, role="executor", worker=worker, weights=self.weights, clock=lambda: self.now
        )
        self._during = during

    async def train(self) -> None:
        async with asyncio.TaskGroup() as background:
            async for delivery in self.stream.deliveries():
                async with delivery:
                    if self._during is not None:
                        await self._during(delivery)
                    ours = await delivery.may_step()
                    if self.guarded and not ours:
                        raise StepAbandoned("given up before its optimiser step")
                    self.weights.steps.append(delivery.step)
                    await delivery.ack(ack(delivery))
                    delivery.confirm(len(self.weights.steps), background)


def ack(delivery: Delivery) -> Ack:
    fates = dict.fromkeys(owned(delivery.view), 1)
    return Ack(epoch=delivery.epoch, step=delivery.step, outcome="trained", updates=delivery.step, fates=fates)


class Wire(httpx.AsyncBaseTransport):
    """The way to the service; while it is cut, what is sent hangs. `calls` are those that were answered."""

    def __init__(self, build: Builder) -> None:
        self._app = httpx.ASGITransport(build.app)
        self.cut = False
        self.calls: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.cut:
            await asyncio.Event().wait()
        answer = await self._app.handle_async_request(request)
        self.calls.append(request.url.path.rpartition(":")[2])
        return answer


class Servers:
    """Starts trainers of one run, and ends what is left of them."""

    def __init__(self, build: Builder, stack: AsyncExitStack) -> None:
        self._build = build
        self._stack = stack

    async def trainer(self, worker: str, during: Step | None = None, *wires: Wire) -> Trainer:
        wires = wires or (Wire(self._build), Wire(self._build))
        clients = [await self._stack.enter_async_context(SyncClient("http://sync", transport=wire)) for wire in wires]
        return Trainer(clients, self._build.run, worker, during)

    def start(self, trainer: Trainer) -> asyncio.Task[None]:
        task = asyncio.create_task(trainer.train())
        self._stack.callback(task.cancel)
        return task


@pytest.fixture
async def run(build: Builder, monkeypatch: pytest.MonkeyPatch) -> Builder:
    """Two steps, ready for the executor, the only role that trains; no attempt more than two."""
    monkeypatch.setattr(module, "HELD_POLL_S", 0.01)
    await build.declare(steps=2, trained_roles=("executor",), lease_ttl_s=TTL_S, max_attempts=2)
    for step in (1, 2):
        await build.fill(step)
    return build


@pytest.fixture
async def servers(run: Builder) -> AsyncGenerator[Servers]:
    async with AsyncExitStack() as stack:
        yield Servers(run, stack)


async def first_step(build: Builder) -> DeliveryRow:
    page = await build.get(f"/v1/runs/{build.run}/deliveries", Page[DeliveryRow])
    return page.items[0]


@pytest.mark.parametrize("guarded", [True, False], ids=["abandons-before-its-optimiser-step", "is-refused-its-ack"])
async def test_a_trainer_that_was_away_too_long_is_replaced_and_what_it_did_is_in_no_weights(
    run: Builder, servers: Servers, guarded: bool
) -> None:
    stuck, awake, second_waits, let_go = (asyncio.Event() for _ in range(4))

    async def get_stuck(delivery: Delivery) -> None:
        stuck.set()
        await awake.wait()

    async def stay_in_the_last_step(delivery: Delivery) -> None:
        if delivery.step == 2:
            second_waits.set()
            await let_go.wait()

    renewals = Wire(run)
    first = await servers.trainer("executor-1", get_stuck, Wire(run), renewals)
    first.guarded = guarded
    servers.start(first)
    await stuck.wait()
    asking = Wire(run)
    second = await servers.trainer("executor-2", stay_in_the_last_step, asking, Wire(run))
    taking_over = servers.start(second)
    await until(lambda: asking.calls.count("resume") >= 3)
    assert second.weights.loaded == [], "a live lease is not taken, however often it is asked for"

    renewals.cut = True
    first.now += module.ABANDON_AT * TTL_S + 1
    await run.expire_lease("executor")
    await second_waits.wait()
    assert second.weights.steps == [1]

    awake.set()
    await until(lambda: first.weights.restored == 2)  # it lost the step, and asks for the stream in its turn
    let_go.set()
    await taking_over
    assert second.weights.steps == [1, 2]
    assert first.weights.loaded == ["1.0"]
    steps = await run.client.steps(run.run)
    assert [(step.step, step.epoch) for step in steps] == [(1, 2), (2, 2)]
    assert (await run.client.run(run.run)).state == "finished"


async def fail(delivery: Delivery) -> None:
    if delivery.step == 1:
        raise MemoryError


async def kill_the_first_step(servers: Servers) -> Trainer:
    """A server that dies of the step, and is started again, as often as the run lets it; then one that would not."""
    for _ in range(2):
        with pytest.RaisesGroup(MemoryError):
            await (await servers.trainer("executor-1", fail)).train()
    return await servers.trainer("executor-1")


async def test_a_step_that_no_trainer_survives_is_dead_until_an_operator_requeues_it(
    run: Builder, servers: Servers
) -> None:
    trainer = await kill_the_first_step(servers)
    dead = await first_step(run)
    assert (dead.state, dead.attempts, dead.error) == ("dead", 2, "trainer-failed")
    training = servers.start(trainer)
    await until(lambda: trainer.weights.loaded)
    status = await run.client.status(run.run)
    assert "executor waits for the operator: step 1 is dead after 2 attempts (trainer-failed)" in status.waiting_for
    assert trainer.weights.steps == []
    await run.post(f"/v1/deliveries/{dead.id}:requeue")
    await training
    assert trainer.weights.steps == [1, 2]


async def test_a_step_that_an_operator_skips_is_in_no_weights(run: Builder, servers: Servers) -> None:
    trainer = await kill_the_first_step(servers)
    await run.post(f"/v1/deliveries/{(await first_step(run)).id}:skip")
    await trainer.train()
    assert trainer.weights.steps == [2]
    steps = await run.client.steps(run.run)
    assert [(step.step, step.outcome, step.reason) for step in steps] == [
        (1, "skipped", "by-operator"),
        (2, "trained", None),
    ]


async def test_a_server_that_is_told_to_stop_gives_the_step_back_at_once(run: Builder, servers: Servers) -> None:
    inside = asyncio.Event()

    async def wait(delivery: Delivery) -> None:
        inside.set()
        await asyncio.Event().wait()

    stopped = servers.start(await servers.trainer("executor-1", wait))
    await inside.wait()
    stopped.cancel()
    await asyncio.wait({stopped})
    row = await first_step(run)
    assert (row.state, row.attempts) == ("ready", 0)
    other = await servers.trainer("executor-2")
    await other.train()
    assert other.weights.steps == [1, 2]


async def test_two_runs_are_trained_side_by_side_through_one_service(run: Builder, servers: Servers) -> None:
    other = Builder(run.app, run.client, run="r2", spec=run.spec)
    await other.declare()
    for step in (1, 2):
        await other.fill(step)
    trainer = await servers.trainer("executor-1")
    async with AsyncExitStack() as stack:
        beside = await Servers(other, stack).trainer("executor-1")
        await asyncio.gather(trainer.train(), beside.train())
    assert trainer.weights.steps == beside.weights.steps == [1, 2]
    for build in (run, other):
        assert (await build.client.run(build.run)).state == "finished"
        assert {step.epoch for step in await build.client.steps(build.run)} == {1}
