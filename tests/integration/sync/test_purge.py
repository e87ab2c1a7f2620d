"""A run that is over is purged bit by bit: all of it goes, nothing of another run, and nobody waits for it."""

import asyncio

import pytest

from shared.errors import InvalidTransition, NotFound
from shared.ids import new_id
from shared.schemas.base import Page
from shared.schemas.stream import Heartbeat
from shared.schemas.views import AuditRow
from sync_service import reaper
from sync_service.config import SyncConfig
from sync_service.operations import purge, trajectories
from sync_service.tables import metadata
from tests.integration.sync.builder import Builder
from tests.waiting import until

KEPT = ("audit", "keys")
RUN_TABLES = [table.name for table in metadata.sorted_tables if "run" in table.c and table.name not in KEPT]


async def rows(build: Builder, run: str) -> dict[str, int]:
    """How many rows of a run each table holds."""
    found = {}
    for table in RUN_TABLES:
        (count,) = await build.sql(f"SELECT count(*) AS n FROM {table} WHERE run = :run", run=run)
        found[table] = count.n
    return found


async def live(build: Builder) -> Builder:
    """A run with rows in every table, a late rollout and a trajectory of nobody among them, that has failed."""
    await build.declare(steps=2)
    await build.client.heartbeat(build.run, "planner-1", Heartbeat(role="planner", url="http://gpu-1"))
    done = await build.fill(1)
    await build.report(build.rollout(done[0].body.group, 1, id=new_id()))
    await build.send([build.score(new_id())])
    planner = build.trainer("planner")
    await planner.resume()
    await planner.train()
    await build.client.fail(build.run, "gave-up")
    await build.sql("INSERT INTO stalls VALUES (:run, 'no-trainer', 'planner', 1, now())", run=build.run)
    assert all((await rows(build, build.run)).values())
    return build


async def test_everything_of_the_run_goes_and_its_name_is_free(build: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge, "ROWS", 10)  # several transactions
    other = await Builder(build.app, build.client, run="r2").declare()
    await other.fill(1)
    kept = await rows(build, "r2")
    await live(build)
    assert (await build.post("/v1/runs/r1:purge"))["state"] == "purging"
    before = sum((await rows(build, "r1")).values())
    assert await reaper.delete(build.app.state.service, for_s=60) == before
    assert set((await rows(build, "r1")).values()) == {0}
    assert await rows(build, "r2") == kept
    with pytest.raises(NotFound):
        await build.client.run("r1")
    newest, *_ = (await build.get("/v1/audit?run=r1", Page[AuditRow])).items
    assert newest.action == "run-purge"
    await build.declare(steps=7)
    assert (await build.client.status("r1")).groups == {}


async def test_a_purge_that_is_cut_short_goes_on(build: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge, "ROWS", 10)
    await live(build)
    await build.post("/v1/runs/r1:purge")
    service = build.app.state.service
    assert await service.database.transaction(purge.bit) > 0
    assert (await build.client.run("r1")).state == "purging"
    await reaper.delete(service, for_s=60)
    assert set((await rows(build, "r1")).values()) == {0}


async def test_nothing_is_taken_for_a_run_that_is_purged(build: Builder) -> None:
    await build.declare(groups_per_step=1)
    group = await build.open()
    await build.client.fail("r1", "gave-up")
    await build.post("/v1/runs/r1:purge")
    refused = [
        *(await build.client.submit_rollouts([build.rollout(group)])).items,
        *(await build.client.submit_trajectories([build.score(new_id())])).items,
    ]
    assert [item.status for item in refused] == [404, 404]
    for call in (build.declare(groups_per_step=1), build.open(1, 0), build.trainer("planner").resume()):
        with pytest.raises(InvalidTransition, match="purg"):
            await call


async def test_a_run_that_lasts_is_not_purged(build: Builder) -> None:
    await build.declare()
    with pytest.raises(InvalidTransition):
        await build.post("/v1/runs/r1:purge")


async def test_the_others_go_on_while_a_transaction_of_the_purge_is_open(build: Builder) -> None:
    other = await Builder(build.app, build.client, run="r2").declare()
    await live(build)
    await build.post("/v1/runs/r1:purge")
    async with build.app.state.service.database.engine.connect() as deleting:
        assert await purge.bit(deleting) > 0
        async with asyncio.timeout(60):  # nobody waits for the rows that are locked
            await other.fill(1)
            for role in ("planner", "executor"):
                trainer = other.trainer(role)
                await trainer.resume()
                await trainer.train()
        await deleting.commit()
    assert (await build.client.status("r2")).roles["executor"].live_step == 1


async def test_who_submits_to_a_group_that_goes_is_told_that_it_is_gone(build: Builder) -> None:
    """The submission waits for the lock of the purge, and then finds nothing."""
    await live(build)
    groups = await build.sql("SELECT id FROM groups WHERE run = 'r1' LIMIT 1")
    await build.post("/v1/runs/r1:purge")
    async with build.app.state.service.database.engine.connect() as deleting:
        await purge.bit(deleting)
        asked = asyncio.create_task(build.client.submit_rollouts([build.rollout(groups[0].id, 1)]))
        await _blocked(build)
        await deleting.commit()
    assert [item.status for item in (await asked).items] == [404]


async def test_a_trajectory_that_was_on_its_way_goes_with_its_run(build: Builder) -> None:
    """Its transaction found the run before the purge, and commits when all but the run itself is deleted."""
    await build.declare()
    await build.client.fail("r1", "gave-up")
    service = build.app.state.service
    async with service.database.engine.connect() as submitting:
        outcomes, _ = await trajectories.submit(submitting, [build.score(new_id())])
        await build.post("/v1/runs/r1:purge")
        deleting = asyncio.create_task(reaper.delete(service, for_s=60))
        await _blocked(build)
        await submitting.commit()
    await deleting
    assert outcomes[0].accepted
    assert set((await rows(build, "r1")).values()) == {0}


async def _blocked(build: Builder) -> None:
    """Until a statement of this database waits for a lock."""
    waiting = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    await until(lambda: build.sql(waiting))


async def test_the_retention_purges_what_is_over_and_old(build: Builder, sync_config: SyncConfig) -> None:
    service = build.app.state.service
    service.config = sync_config.model_copy(update={"keep_runs_days": 2})
    for name in ("old", "young", "lasting"):
        await build.client.declare_run(name, build.spec)
    for name in ("old", "young"):
        await build.client.fail(name, "gave-up")
    await build.sql("UPDATE events SET at = now() - interval '3 days' WHERE run IN ('old', 'lasting')")
    await reaper.retire(service)
    states = [(await build.client.run(name)).state for name in ("old", "young", "lasting")]
    assert states == ["purging", "failed", "declared"]
    (row,) = await build.sql("SELECT key, details FROM audit WHERE action = 'run-purge'")
    assert (row.key, row.details) == (None, {"reason": "retention"})
