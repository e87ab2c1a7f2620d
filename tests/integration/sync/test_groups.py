"""Groups: opened once, closed once, complete or discarded."""

import pytest

from shared.errors import BodyConflict, Conflict, InvalidInput, InvalidTransition, NotFound
from shared.ids import new_id
from shared.schemas.base import Page
from shared.schemas.rollout import GroupBatch, GroupBatchResult, GroupItem, GroupOpen, GroupView
from shared.schemas.views import RolloutView, TrajectoryRecord
from sync_service import reaper
from tests.integration.sync.builder import Builder


def _opening(run: str, step: int, index: int) -> GroupItem:
    return GroupItem(id=new_id(), body=GroupOpen(run=run, step=step, index=index, task_id="t"))


async def test_opening_again_is_answered_as_before_even_when_the_run_opens_nothing_more(build: Builder) -> None:
    await build.declare()
    group, body = new_id(), GroupOpen(run=build.run, step=1, index=0, task_id="t")
    first = await build.client.open_group(group, body)
    await build.client.drain(build.run)
    assert await build.client.open_group(group, body) == first
    with pytest.raises(BodyConflict):
        await build.client.open_group(group, body.model_copy(update={"task_id": "u"}))


async def test_a_place_is_taken_once(build: Builder) -> None:
    await build.declare()
    await build.open(1, 0)
    with pytest.raises(Conflict, match="step 1, index 0"):
        await build.open(1, 0)


async def test_places_outside_the_run_are_refused_by_name(build: Builder) -> None:
    await build.declare()
    with pytest.raises(InvalidInput, match="step"):
        await build.open(4, 0)
    with pytest.raises(InvalidInput, match="index"):
        await build.open(1, 2)
    with pytest.raises(NotFound):
        await build.client.open_group(new_id(), GroupOpen(run="none", step=1, index=0, task_id="t"))


async def test_many_are_opened_at_once_each_judged_alone(build: Builder) -> None:
    await build.declare()
    await build.client.declare_run("other", build.spec)
    items = [_opening(build.run, 1, 0), _opening(build.run, 1, 1), _opening(build.run, 1, 0), _opening(build.run, 9, 0)]
    items += [_opening("other", 1, 0), _opening("none", 1, 0), items[0]]
    body = GroupBatch(items=tuple(items))
    first, second = [await build.client._call("POST", "/v1/groups:batch", body, GroupBatchResult) for _ in range(2)]
    assert first == second
    assert [result.status for result in first.items] == [200, 200, 409, 422, 200, 404, 200]
    assert [result.id for result in first.items] == [item.id for item in items]
    assert first.items[0].group == await build.group(items[0].id)


async def test_the_client_opens_many_or_says_why_not(build: Builder) -> None:
    await build.declare(groups_per_step=600)
    items = [_opening(build.run, 1, index) for index in range(600)]
    views = await build.client.open_groups(items)
    assert [(view.group, view.index) for view in views] == [(item.id, item.body.index) for item in items]
    with pytest.raises(Conflict, match="step 1, index 7"):
        await build.client.open_groups([_opening(build.run, 1, 7)])


async def test_the_first_group_starts_the_run(build: Builder) -> None:
    await build.declare()
    assert (await build.client.run(build.run)).state == "declared"
    await build.open(1, 0)
    assert (await build.client.run(build.run)).state == "running"


async def test_a_group_is_complete_when_every_slot_is_final(build: Builder) -> None:
    await build.declare(rollouts_per_group=3)
    group = await build.open()
    await build.report(build.rollout(group, 0), build.aborted(group, 1))
    view = await build.group(group)
    assert (view.state, view.final_slots) == ("open", (0, 1))
    await build.report(build.rollout(group, 2))
    view = await build.group(group)
    assert (view.state, view.scoring, view.final_slots) == ("complete", "pending", (0, 1, 2))


async def test_a_group_with_too_few_reported_rollouts_is_discarded_and_sealed(build: Builder) -> None:
    await build.declare(rollouts_per_group=3)
    group = await build.open()
    reported = build.rollout(group, 0)
    await build.send(build.scores(reported))
    await build.report(reported, build.aborted(group, 1), build.aborted(group, 2))
    view = await build.group(group)
    assert (view.state, view.scoring, view.reason) == ("discarded", "sealed", "too-few-rollouts")
    (trajectory,) = reported.body.executor_trajectories
    record = await build.get(f"/v1/trajectories/{trajectory}", TrajectoryRecord)
    assert (record.state, record.reason) == ("dropped", "discarded")


@pytest.mark.parametrize(("reported", "state"), [(2, "complete"), (1, "discarded"), (0, "discarded")])
async def test_the_deadline_shrinks_a_group_to_the_floor_or_discards_it(
    build: Builder, reported: int, state: str
) -> None:
    await build.declare(rollouts_per_group=4)
    group = await build.open()
    if reported:
        await build.report(*[build.rollout(group, slot) for slot in range(reported)])
    await reaper.sweep(build.app.state.service.database)
    assert (await build.group(group)).state == "open"
    await build.pass_deadline("deadline", group)
    assert await reaper.sweep(build.app.state.service.database) == {build.run}
    assert (await build.group(group)).state == state


async def test_a_rollout_past_the_deadline_closes_the_group_and_is_late_itself(build: Builder) -> None:
    await build.declare(rollouts_per_group=3)
    group = await build.open()
    await build.report(build.rollout(group, 0), build.rollout(group, 1))
    await build.pass_deadline("deadline", group)
    result = await build.report(build.rollout(group, 2))
    assert result.items[0].accepted is False
    view = await build.group(group)
    assert (view.state, view.final_slots) == ("complete", (0, 1))


async def test_an_operator_discards_an_open_group_and_no_other(build: Builder) -> None:
    await build.declare()
    group = await build.open()
    for _ in range(2):
        view = await build.post(f"/v1/groups/{group}:discard")
        assert (view["state"], view["scoring"], view["reason"]) == ("discarded", "sealed", "by-operator")
    complete = await build.open(1, 1)
    await build.report(*[build.rollout(complete, slot, calls=0) for slot in range(2)])
    with pytest.raises(InvalidTransition, match="complete"):
        await build.post(f"/v1/groups/{complete}:discard")
    with pytest.raises(NotFound):
        await build.post(f"/v1/groups/{new_id()}:discard")


async def test_groups_are_listed_by_state_in_the_order_of_their_places(build: Builder) -> None:
    await build.declare(staleness=2)
    opened = [await build.open(step, index) for step in (1, 2, 3) for index in (0, 1)]
    await build.post(f"/v1/groups/{opened[2]}:discard")
    assert [view.group for view in await build.client.groups(build.run)] == opened[:2] + opened[3:]
    assert [view.group for view in await build.client.groups(build.run, state="discarded")] == [opened[2]]


async def test_groups_are_listed_by_step(build: Builder) -> None:
    await build.declare(staleness=2)
    opened = [await build.open(step, index) for step in (1, 2, 3) for index in (0, 1)]
    page = await build.get(f"/v1/runs/{build.run}/groups?step=2", Page[GroupView])
    assert [view.group for view in page.items] == opened[2:4]


async def test_a_group_lists_its_rollouts_and_their_trajectories_in_pages(build: Builder) -> None:
    await build.declare(groups_per_step=1)
    rollouts = await build.fill(1, calls=2)
    group = rollouts[0].body.group
    late = build.rollout(group, 0, calls=1)
    await build.report(late)
    for noun, view, ids in (
        ("rollouts", RolloutView, {item.id for item in [*rollouts, late]}),
        ("trajectories", TrajectoryRecord, {id for r in [*rollouts, late] for id in r.body.executor_trajectories}),
    ):
        listed = await build.client._list(f"/v1/groups/{group}/{noun}?limit=2", Page[view])
        assert {item.id for item in listed} == ids
        assert len(listed) == len(ids)
        assert listed[0] == await build.get(f"/v1/{noun}/{listed[0].id}", view)
    with pytest.raises(NotFound):
        await build.get(f"/v1/groups/{new_id()}/rollouts", Page[RolloutView])


async def test_long_lists_come_in_pages(build: Builder) -> None:
    await build.declare(groups_per_step=5, staleness=2)
    opened = [await build.open(step, index) for step in (1, 2, 3) for index in range(5)]
    seen, cursor = [], ""
    while cursor is not None:
        page = (await build.client._send("GET", f"/v1/runs/{build.run}/groups?limit=4&cursor={cursor}", None)).json()
        seen += [view["group"] for view in page["items"]]
        cursor = page["next"]
    assert seen == opened


async def test_a_cursor_that_is_not_ours_is_refused(build: Builder) -> None:
    await build.declare()
    for cursor in ("x", "W10", "WzEsIDJd0", "WyJhIiwgImIiXQ", "%00"):
        with pytest.raises(InvalidInput, match=r"cursor|NUL"):
            await build.client._send("GET", f"/v1/runs/{build.run}/groups?cursor={cursor}", None)
