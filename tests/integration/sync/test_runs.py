"""Runs: declared once, steered by an operator, finished by the service."""

import pytest

from shared.errors import BodyConflict, InvalidTransition, NotFound
from shared.schemas.base import Page
from shared.schemas.run import RunSpec, RunView
from sync_service import reaper
from sync_service.states import RUN
from tests.integration.sync.builder import Builder


async def test_the_same_spec_again_is_fine_and_another_one_is_a_conflict(build: Builder) -> None:
    await build.declare()
    again = await build.client.declare_run(build.run, build.spec)
    assert (again.state, again.spec) == ("declared", build.spec)
    with pytest.raises(BodyConflict):
        await build.client.declare_run(build.run, RunSpec(steps=4))
    assert (await build.client.run(build.run)).spec == build.spec


async def test_what_is_not_there_is_not_found(build: Builder) -> None:
    for call in (build.client.run("none"), build.client.status("none"), build.client.steps("none")):
        with pytest.raises(NotFound):
            await call


async def test_runs_are_listed_in_pages(build: Builder) -> None:
    for name in ("a", "b", "c"):
        await build.client.declare_run(name, build.spec)
    first = await build.get("/v1/runs?limit=2", Page[RunView])
    second = await build.get(f"/v1/runs?limit=2&cursor={first.next}", Page[RunView])
    assert [run.run for run in first.items + second.items] == ["a", "b", "c"]
    assert second.next is None


async def test_a_status_without_counts_is_the_same_but_for_them(build: Builder) -> None:
    await build.declare()
    await build.open(1, 0)
    whole, bare = await build.client.status(build.run), await build.client.status(build.run, counts=False)
    assert whole.groups == {"open": 1}
    assert bare == whole.model_copy(update={"groups": {}, "rollouts": {}, "trajectories": {}, "waits": bare.waits})


MOVES = {"pause": "paused", "resume": "running", "drain": "draining", "fail": "failed", "purge": "purging"}


async def reach(build: Builder, state: str) -> None:
    """Bring a run into `state` by the calls that lead there."""
    await build.declare(steps=1)
    if state in ("running", "paused"):
        await build.open(1, 0)
    if state == "paused":
        await build.post(f"/v1/runs/{build.run}:pause")
    if state == "draining":
        await build.open(1, 0)
        await build.client.drain(build.run)
    if state == "finished":
        await build.client.drain(build.run)
    if state in ("failed", "purging"):
        await build.client.fail(build.run, "out-of-luck")
    if state == "purging":
        await build.post(f"/v1/runs/{build.run}:purge")
    assert (await build.client.run(build.run)).state == state


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("state", RUN)
async def test_every_move_of_the_operator_is_in_the_table_or_refused(build: Builder, state: str, move: str) -> None:
    await reach(build, state)
    target = MOVES[move]
    by_service = (state, move) in (("declared", "resume"), ("finished", "drain"))
    allowed = target in RUN[state] and not by_service
    path = f"/v1/runs/{build.run}:{move}"
    if allowed or target == state:
        expected = "finished" if (state, move) == ("declared", "drain") else target  # there is nothing to wait for
        assert (await build.post(path))["state"] == expected
    else:
        with pytest.raises(InvalidTransition, match=state):
            await build.post(path)
        assert (await build.client.run(build.run)).state == state


async def test_a_failed_run_keeps_its_first_reason(build: Builder) -> None:
    await build.declare()
    assert (await build.client.fail(build.run, "planner-died")).reason == "planner-died"
    assert (await build.client.fail(build.run, "again")).reason == "planner-died"


async def test_a_paused_run_opens_nothing_and_its_deadlines_stand_still(build: Builder) -> None:
    await build.declare()
    group = await build.open(1, 0)
    await build.post(f"/v1/runs/{build.run}:pause")
    with pytest.raises(InvalidTransition, match="paused"):
        await build.open(1, 1)
    await build.pass_deadline("deadline", group)
    await build.sql("UPDATE groups SET opened_at = now() - interval '1 hour'")
    await build.sql("UPDATE runs SET paused_at = now() - interval '10 minutes'")
    database = build.app.state.service.database
    await reaper.sweep(database)
    await build.report(build.rollout(group, 0))
    assert (await build.group(group)).state == "open"

    await build.post(f"/v1/runs/{build.run}:resume")
    await reaper.sweep(database)
    assert (await build.group(group)).state == "open", "the pause was given back"
    (left,) = await build.sql("SELECT extract(epoch FROM deadline - now()) AS seconds FROM groups")
    assert 550 < left.seconds < 610


async def test_a_run_drains_by_itself_when_the_last_group_is_opened(build: Builder) -> None:
    await build.declare(steps=1)
    await build.open(1, 1)
    assert (await build.client.run(build.run)).state == "running"
    await build.open(1, 0)
    assert (await build.client.run(build.run)).state == "draining"
    with pytest.raises(InvalidTransition, match="draining"):
        await build.open(1, 0)


async def test_it_does_not_drain_while_an_earlier_step_lacks_a_group(build: Builder) -> None:
    await build.declare(steps=2, staleness=1)
    await build.open(2, 0)
    await build.open(2, 1)
    await build.open(1, 0)
    assert (await build.client.run(build.run)).state == "running"
    await build.open(1, 1)
    assert (await build.client.run(build.run)).state == "draining"


async def test_a_drain_cuts_what_is_opened_and_finishes_when_it_is_acked(build: Builder) -> None:
    await build.declare()
    planner, executor = build.trainer("planner"), build.trainer("executor")
    await planner.resume()
    await executor.resume()
    group = await build.open(1, 1)
    await build.client.drain(build.run)
    assert not (await planner.lease()).finished
    rollouts = [build.rollout(group, slot) for slot in range(2)]
    await build.report(*rollouts)
    await planner.train()
    assert (await planner.lease()).finished
    assert not (await executor.lease()).finished
    await build.send([score for rollout in rollouts for score in build.scores(rollout)])
    await executor.train()
    assert (await build.client.run(build.run)).state == "finished"


async def test_two_runs_do_not_see_each_other(build: Builder) -> None:
    await build.declare()
    other = await Builder(build.app, build.client, run="r2", spec=build.spec).declare()
    await build.fill(1)
    assert (await build.client.status("r2")).groups == {}
    group = await other.open(1, 0)
    (refused,) = (await build.client.submit_rollouts([build.rollout(group, 0)])).items
    assert refused.status == 404, "the group of one run, the rollout of another"
    theirs = other.rollout(group, 0)
    (mine,) = theirs.body.executor_trajectories
    await build.send([build.score(theirs.id, mine)])
    (refused,) = (await other.client.submit_rollouts([theirs])).items
    assert refused.status == 409, "the trajectory of one run, the rollout of another"
    planner = other.trainer("planner")
    await planner.resume()
    assert (await planner.lease()).delivery is None
