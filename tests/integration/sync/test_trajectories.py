"""Executor trajectories: before or after their rollout, scored or given up, late or orphaned."""

import pytest

from shared.errors import BodyConflict, Conflict, NotFound
from shared.ids import new_id
from shared.schemas.rollout import Accepted, TrajectoryItem
from shared.schemas.views import TrajectoryRecord
from sync_service import reaper
from tests.integration.sync.builder import Builder


async def put(build: Builder, item: TrajectoryItem) -> Accepted:
    """One trajectory by its own call."""
    return await build.client._call("PUT", f"/v1/trajectories/{item.id}", item.body, Accepted)


async def record(build: Builder, id: str) -> TrajectoryRecord:
    """A trajectory as the service sees it."""
    return await build.get(f"/v1/trajectories/{id}", TrajectoryRecord)


async def test_scores_may_come_before_their_rollout(build: Builder) -> None:
    await build.declare()
    group = await build.open()
    rollouts = [build.rollout(group, slot, calls=2) for slot in range(2)]
    await build.send([score for rollout in rollouts for score in build.scores(rollout)])
    assert (await record(build, rollouts[0].body.executor_trajectories[0])).group is None
    await build.report(*rollouts)
    view = await build.group(group)
    assert (view.state, view.scoring) == ("complete", "sealed")
    assert (await record(build, rollouts[0].body.executor_trajectories[0])).group == group


async def test_the_last_score_awaited_seals_the_group(build: Builder) -> None:
    await build.declare()
    group = await build.open()
    first, second = build.rollout(group, 0, calls=1), build.rollout(group, 1, calls=1)
    await build.report(first, second)
    await build.send(build.scores(first))
    assert (await build.group(group)).scoring == "pending"
    await build.send(build.scores(second, status="unscored", reason="judge-down", r_format=None, r_expert=None))
    assert (await build.group(group)).scoring == "sealed"
    given_up = await record(build, second.body.executor_trajectories[0])
    assert (given_up.state, given_up.reason) == ("unscored", "judge-down")


async def test_an_expert_score_may_be_absent_only_at_format_zero(build: Builder) -> None:
    await build.declare()
    invalid = build.score(new_id(), r_format=0, r_expert=None)
    assert await put(build, invalid) == Accepted(accepted=True, state="scored")
    with pytest.raises(ValueError, match="r_expert"):
        build.score(new_id(), r_format=1, r_expert=None)


@pytest.mark.parametrize("by", ["sweep", "submission"])
async def test_the_score_deadline_seals_a_group_and_what_comes_then_is_late(build: Builder, by: str) -> None:
    await build.declare()
    group = await build.open()
    first, second = build.rollout(group, 0), build.rollout(group, 1)
    await build.report(first, second)
    await build.send(build.scores(first))
    await build.pass_deadline("score_deadline", group)
    if by == "sweep":
        await reaper.sweep(build.app.state.service.database)
        assert (await build.group(group)).scoring == "sealed"
    (late,) = build.scores(second)
    for _ in range(2):
        assert await put(build, late) == Accepted(accepted=False, state="late")
    assert (await build.group(group)).scoring == "sealed"
    assert (await record(build, late.id)).state == "late"


async def test_a_score_for_a_group_that_its_deadline_completes_is_in_time(build: Builder) -> None:
    await build.declare(rollouts_per_group=3)
    group = await build.open()
    rollouts = [build.rollout(group, slot) for slot in range(2)]
    await build.report(*rollouts)
    await build.pass_deadline("deadline", group)
    await build.send(build.scores(rollouts[0]))
    view = await build.group(group)
    assert (view.state, view.scoring) == ("complete", "pending")
    await build.send(build.scores(rollouts[1]))
    assert (await build.group(group)).scoring == "sealed"


async def test_the_same_body_is_answered_as_before_whatever_became_of_it(build: Builder) -> None:
    await build.declare()
    rollouts = await build.fill(1)
    (score,) = build.scores(rollouts[0])
    executor = build.trainer("executor")
    await executor.resume()
    await executor.train()
    assert (await record(build, score.id)).state == "trained"
    assert await put(build, score) == Accepted(accepted=True, state="scored")
    with pytest.raises(BodyConflict):
        await put(build, build.score(rollouts[0].id, score.id, r_expert=0.75))
    assert (await record(build, score.id)).r_expert == 0.5


async def test_a_trajectory_belongs_to_the_rollout_that_names_it(build: Builder) -> None:
    await build.declare()
    group = await build.open()
    rollout = build.rollout(group, 0)
    await build.report(rollout)
    with pytest.raises(Conflict, match="another rollout"):
        await put(build, build.score(new_id(), rollout.body.executor_trajectories[0]))
    with pytest.raises(NotFound, match="no run"):
        await put(build, build.score(new_id(), run="none"))


async def test_what_no_rollout_names_is_an_orphan_when_its_group_closes(build: Builder) -> None:
    await build.declare()
    group = await build.open()
    rollout = build.rollout(group, 0)
    before, between, after = (build.score(rollout.id) for _ in range(3))
    await put(build, before)
    await build.report(rollout)
    await put(build, between)
    assert {(await record(build, item.id)).state for item in (before, between)} == {"scored"}
    await build.report(build.rollout(group, 1))
    for item in (before, between):
        orphan = await record(build, item.id)
        assert (orphan.state, orphan.reason) == ("orphan", "not-named")
    for _ in range(2):
        assert await put(build, after) == Accepted(accepted=False, state="orphan")


async def test_what_has_no_rollout_is_an_orphan_after_its_deadline(build: Builder) -> None:
    await build.declare()
    item = build.score(new_id())
    await put(build, item)
    await reaper.sweep(build.app.state.service.database)
    assert (await record(build, item.id)).state == "scored"
    await build.sql("UPDATE trajectories SET orphan_at = now() - interval '1 s'")
    await reaper.sweep(build.app.state.service.database)
    orphan = await record(build, item.id)
    assert (orphan.state, orphan.reason) == ("orphan", "rollout-unknown")
    assert await put(build, item) == Accepted(accepted=True, state="scored"), "as before"


async def test_an_orphan_that_is_named_in_the_end_holds_nobody_up_and_is_not_trained(build: Builder) -> None:
    await build.declare(groups_per_step=1)
    group = await build.open()
    first, second = build.rollout(group, 0), build.rollout(group, 1)
    await build.send(build.scores(first) + build.scores(second))
    await build.sql("UPDATE trajectories SET state = 'orphan' WHERE rollout_id = CAST(:id AS uuid)", id=second.id)
    await build.report(first, second)
    executor = build.trainer("executor")
    await executor.resume()
    delivery = await executor.delivery()
    states = {t.id: t.state for g in delivery.groups for r in g.rollouts for t in r.executor_trajectories}
    assert sorted(states.values()) == ["orphan", "scored"]


async def test_trajectories_of_an_aborted_rollout_are_dropped_at_the_seal(build: Builder) -> None:
    await build.declare(rollouts_per_group=3)
    group = await build.open()
    aborted = build.aborted(group, 2)
    item = build.score(aborted.id)
    aborted = aborted.model_copy(
        update={"body": aborted.body.model_copy(update={"executor_trajectories": (item.id, new_id())})}
    )
    await put(build, item)
    await build.report(build.rollout(group, 0, calls=0), build.rollout(group, 1, calls=0), aborted)
    assert (await build.group(group)).scoring == "sealed", "nobody waits for the score of an aborted rollout"
    dropped = await record(build, item.id)
    assert (dropped.state, dropped.reason) == ("dropped", "rollout-aborted")


async def test_where_the_executor_does_not_train_its_trajectories_end_at_the_seal(build: Builder) -> None:
    await build.declare(trained_roles=("planner",))
    rollouts = await build.fill(1)
    ends = [await record(build, id) for rollout in rollouts for id in rollout.body.executor_trajectories]
    assert {(end.state, end.reason) for end in ends} == {("dropped", "not-trained")}


async def test_the_score_of_a_discarded_group_is_late(build: Builder) -> None:
    await build.declare()
    group = await build.open()
    rollout = build.rollout(group, 0)
    await build.report(rollout)
    await build.post(f"/v1/groups/{group}:discard")
    (score,) = build.scores(rollout)
    assert await put(build, score) == Accepted(accepted=False, state="late")
