"""Events: written with what happened, numbered after the commit, so that no cursor skips one."""

import asyncio
import gc
import random

import pytest
from asgi_lifespan import LifespanManager
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import InvalidInput
from shared.schemas.events import Event, EventPage
from sync_service import store
from sync_service.app import create_app
from sync_service.config import SyncConfig
from sync_service.feed import Feed
from sync_service.operations import purge
from sync_service.operations.events import emit, note
from tests.integration.sync.builder import Builder
from tests.waiting import until


def feed_of(build: Builder) -> Feed:
    return build.app.state.service.feed


async def events(build: Builder, query: str = "") -> tuple[Event, ...]:
    return (await build.get(f"/v1/events?{query}", EventPage)).items


async def write(connection: AsyncConnection, name: str) -> None:
    """An event that can be told from the others."""
    await emit(connection, [note("r1", "stall-began", code=name)])


def names(items) -> list:
    return [item.body["code"] for item in items]


async def test_what_commits_late_comes_late_and_is_not_skipped(build: Builder) -> None:
    engine, feed = build.app.state.service.database.engine, feed_of(build)
    async with engine.connect() as slow, engine.connect() as quick:
        await write(slow, "slow")  # takes the lower id
        await write(quick, "quick")
        await quick.commit()
        seen = await feed.after(0, None, 10)
        assert names(seen) == ["quick"]
        await slow.commit()
        assert names(await feed.after(seen[-1].position, None, 10)) == ["slow"]
    (first, second) = await build.sql("SELECT id FROM events ORDER BY position")
    assert first.id > second.id, "a cursor over ids would have skipped the second"


async def test_many_who_read_at_once_cost_few_rounds_of_numbering(
    build: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds, unnumbered = [], store.events.unnumbered

    async def counted(connection: AsyncConnection) -> bool:
        rounds.append(True)
        return await unnumbered(connection)

    await build.declare()
    monkeypatch.setattr(store.events, "unnumbered", counted)
    pages = await asyncio.gather(*(feed_of(build).after(0, None, 10) for _ in range(50)))
    assert len(rounds) <= 2
    assert pages == [pages[0]] * 50
    assert pages[0]
    build.app.state.service.doorbell.stop()
    assert await feed_of(build).after(0, None, 10) == []


async def test_a_reader_that_goes_at_any_moment_leaves_no_connection_behind(
    build: Builder, recwarn: pytest.WarningsRecorder
) -> None:
    await build.declare()
    for moment in range(300):
        reader = asyncio.create_task(feed_of(build).after(0, None, 10))
        for _ in range(moment):
            await asyncio.sleep(0)
        reader.cancel()
        await asyncio.wait({reader})
    database = build.app.state.service.database
    await until(lambda: database.in_use == 0)
    gc.collect()  # SQLAlchemy tells of a lost one when it is collected
    assert [str(told.message) for told in recwarn if "non-checked-in connection" in str(told.message)] == []


async def test_a_transaction_that_is_rolled_back_leaves_no_event(build: Builder) -> None:
    async with build.app.state.service.database.engine.connect() as connection:
        await write(connection, "undone")
        await connection.rollback()
    assert await feed_of(build).after(0, None, 10) == []


async def test_readers_of_many_writers_that_commit_in_any_order_see_each_event_once(
    build: Builder, sync_config: SyncConfig
) -> None:
    engine, total = build.app.state.service.database.engine, 60
    order = random.Random(7)

    async def writer(number: int) -> None:
        async with engine.connect() as connection:
            await write(connection, f"event-{number}")
            await asyncio.sleep(order.random() * 0.05)  # commits are out of order; nothing waits for this
            await connection.commit()

    async def reader(feed: Feed) -> list[Event]:
        seen: list[Event] = []
        while len(seen) < total:
            seen += await feed.after(seen[-1].position if seen else 0, None, 7)
            await asyncio.sleep(0)
        return seen

    second = create_app(sync_config)
    async with LifespanManager(second), asyncio.timeout(60):
        feeds = (feed_of(build), second.state.service.feed)
        readers = [asyncio.create_task(reader(feed)) for feed in feeds]
        await asyncio.gather(*(writer(number) for number in range(total)))
        seen = await asyncio.gather(*readers)
    for items in seen:
        assert sorted(names(items)) == sorted(f"event-{number}" for number in range(total))
        assert [item.position for item in items] == sorted(item.position for item in items)
    assert seen[0] == seen[1]


async def test_a_position_is_never_given_twice_though_the_last_events_are_purged(build: Builder) -> None:
    await build.declare()
    (declared,) = await events(build)
    await build.client.fail(build.run, "over")
    last = (await events(build))[-1]
    await build.post(f"/v1/runs/{build.run}:purge")
    while await build.app.state.service.database.transaction(purge.bit):
        pass
    assert await events(build) == ()
    await build.declare()
    assert (await events(build))[0].position > last.position > declared.position


async def test_the_events_of_a_step_tell_its_story(build: Builder) -> None:
    await build.declare(steps=1, groups_per_step=2)
    kept, lost = await build.open(1, 0), await build.open(1, 1)
    first, second = build.rollout(kept, 0), build.rollout(kept, 1, calls=0)
    await build.report(first, second, build.aborted(lost, 0), build.aborted(lost, 1))
    await build.send(build.scores(first))
    for role in ("planner", "executor"):
        trainer = build.trainer(role)
        await trainer.resume()
        await trainer.train()
        await trainer.confirm(1)  # repeated: no second event
        await trainer.release()
    told = await events(build)
    moves = [event.body["state"] for event in told if event.kind == "run-moved"]
    assert moves == ["declared", "running", "draining", "finished"]
    trained = ("stream-resumed", "delivery-leased", "delivery-acked", "version-confirmed", "stream-released")
    assert [(event.kind, event.body.get("role")) for event in told if event.kind != "run-moved"] == [
        ("group-closed", None),
        ("group-discarded", None),
        ("batch-cut", None),
        ("delivery-ready", "planner"),
        ("group-sealed", None),
        ("delivery-ready", "executor"),
        *((kind, "planner") for kind in trained),
        *((kind, "executor") for kind in trained),
    ]


async def test_what_fails_and_what_an_operator_does_is_told(build: Builder) -> None:
    await build.declare(max_attempts=1)
    await build.fill(1, calls=0)
    planner = build.trainer("planner")
    for verdict in ("requeue", "skip"):
        await planner.resume()
        delivery = await planner.delivery()
        await planner.release("cuda-error")
        await build.post(f"/v1/deliveries/{delivery.id}:{verdict}")
    kinds = [event.kind for event in await events(build) if event.kind.startswith(("delivery", "stream"))][2:]
    failed = ["stream-resumed", "delivery-leased", "stream-released", "delivery-dead"]
    assert kinds == [*failed, "delivery-requeued", *failed, "delivery-skipped"]


async def test_a_reader_may_ask_for_one_run_and_for_a_few_at_a_time(build: Builder) -> None:
    await build.declare()
    other = await Builder(build.app, build.client, run="r2", spec=build.spec).declare()
    await build.open()
    assert {event.run for event in await events(build)} == {"r1", "r2"}
    assert [event.body for event in await events(build, "run=r2")] == [{"state": "declared"}]
    page = await build.get("/v1/events?limit=2", EventPage)
    assert (len(page.items), page.after) == (2, page.items[-1].position)
    rest = await build.get(f"/v1/events?after={page.after}", EventPage)
    assert len(rest.items) == 1
    assert (await build.get(f"/v1/events?after={rest.after}", EventPage)).after == rest.after
    assert other.run == "r2"


@pytest.mark.parametrize(
    "query", ["after=-1", "after=9223372036854775808", "wait=61", "wait=nan", "limit=0", "run=a b"]
)
async def test_a_query_that_makes_no_sense_is_refused(build: Builder, query: str) -> None:
    with pytest.raises(InvalidInput):
        await events(build, query)


async def test_a_held_poll_is_answered_by_what_happens_in_any_run(build: Builder) -> None:
    asked = asyncio.create_task(events(build, "wait=60"))
    await until(lambda: build.app.state.service.doorbell._waiters)
    await build.declare()
    assert [event.run for event in await asked] == [build.run]


async def test_a_held_poll_ends_without_an_event(build: Builder) -> None:
    page = await build.get("/v1/events?after=7&wait=0.1", EventPage)
    assert (page.items, page.after) == ((), 7)


async def test_the_round_of_the_reaper_numbers_what_nobody_waits_for(sync_config: SyncConfig) -> None:
    app = create_app(sync_config.model_copy(update={"reaper_s": 0.02}))
    async with LifespanManager(app):
        database = app.state.service.database
        await database.transaction(lambda connection: write(connection, "alone"))
        await until(lambda: database.read(lambda connection: store.events.after(connection, 0, None, 1)))
