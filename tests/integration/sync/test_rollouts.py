"""Rollouts: submitted once, final, late ones apart; an item that is refused is refused alone."""

import pytest
from pydantic import ValidationError

from shared.errors import BodyConflict, Conflict, InvalidInput, NotFound
from shared.ids import new_id
from shared.schemas.rollout import Accepted, RolloutItem, RolloutReport
from shared.schemas.views import RolloutView, TrajectoryRecord
from tests.integration.sync.builder import Builder


async def put(build: Builder, item: RolloutItem) -> Accepted:
    """One rollout by its own call."""
    return await build.client._call("PUT", f"/v1/rollouts/{item.id}", item.body, Accepted)


async def test_the_same_body_again_is_answered_as_before_and_counts_once(build: Builder) -> None:
    await build.declare()
    group = await build.open()
    item = build.rollout(group, 0)
    answers = [await put(build, item) for _ in range(2)]
    assert answers[0] == answers[1] == Accepted(accepted=True, state="reported")
    again = await build.report(item, item)
    assert [result.accepted for result in again.items] == [True, True]
    assert (await build.group(group)).state == "open"


async def test_another_body_under_the_same_id_is_refused_and_overwrites_nothing(build: Builder) -> None:
    await build.declare()
    item = build.rollout(await build.open(), 0, r_correct=1.0)
    await put(build, item)
    with pytest.raises(BodyConflict):
        await put(build, RolloutItem(id=item.id, body=item.body.model_copy(update={"r_correct": 0.0})))
    assert (await build.get(f"/v1/rollouts/{item.id}", RolloutView)).r_correct == 1.0


async def test_a_rollout_is_kept_as_it_came(build: Builder) -> None:
    await build.declare()
    group = await build.open()
    item = build.rollout(group, 1, calls=3, r_format=0, r_correct=0.25, tokens=42)
    await put(build, item)
    view = await build.get(f"/v1/rollouts/{item.id}", RolloutView)
    assert (view.group, view.slot, view.state, view.tokens) == (group, 1, "reported", 42)
    assert (view.r_format, view.r_correct, view.version) == (0, 0.25, item.body.version)
    assert view.executor_trajectories == item.body.executor_trajectories
    awaited = await build.get(f"/v1/trajectories/{item.body.executor_trajectories[0]}", TrajectoryRecord)
    assert (awaited.state, awaited.rollout, awaited.group) == ("awaited", item.id, group)


TERMS_ON = {"correct": 0.6, "protocol": 0.1, "efficiency": 0.1, "diversity": 0.1, "budget": {"calls": 8}}
SCORES = {"r_protocol": 1.0, "r_efficiency": 0.25, "r_diversity": 0.5}


async def test_the_scores_are_those_of_the_terms_that_the_reward_has(build: Builder) -> None:
    await build.declare(planner_reward=TERMS_ON)
    group = await build.open()
    item = build.rollout(group, 0, **SCORES)
    await put(build, item)
    view = await build.get(f"/v1/rollouts/{item.id}", RolloutView)
    assert {name: getattr(view, name) for name in SCORES} == SCORES
    for missing in SCORES:
        with pytest.raises(InvalidInput, match=f"{missing}: the reward of run r1 needs"):
            await put(build, build.rollout(group, 1, **(SCORES | {missing: None})))
    await put(build, build.aborted(group, 1))
    with pytest.raises(ValidationError, match="has no rewards"):
        RolloutReport(run="r1", group=group, slot=0, status="aborted", reason="executor-failed", r_diversity=1.0)


async def test_a_run_whose_reward_has_no_terms_takes_no_scores_of_them(build: Builder) -> None:
    await build.declare()
    group = await build.open()
    for name, score in SCORES.items():
        with pytest.raises(InvalidInput, match=f"{name}: the reward of run r1 has no"):
            await put(build, build.rollout(group, 0, **{name: score}))
    assert (await build.group(group)).final_slots == ()


async def test_the_scores_of_the_terms_go_to_the_planner_alone(build: Builder) -> None:
    await build.declare(steps=1, groups_per_step=1, planner_reward=TERMS_ON)
    group = await build.open()
    rollouts = [build.rollout(group, slot, **SCORES) for slot in (0, 1)]
    await build.report(*rollouts)
    await build.send([score for rollout in rollouts for score in build.scores(rollout)])
    for role, expected in (("planner", SCORES), ("executor", dict.fromkeys(SCORES))):
        trainer = build.trainer(role)
        await trainer.resume()
        (delivered,) = (await trainer.delivery()).groups
        found = [{name: getattr(rollout, name) for name in SCORES} for rollout in delivered.rollouts]
        assert found == [expected] * 2


async def test_a_slot_has_one_rollout(build: Builder) -> None:
    await build.declare()
    group = await build.open()
    await put(build, build.rollout(group, 0))
    with pytest.raises(Conflict, match="slot 0"):
        await put(build, build.rollout(group, 0))
    with pytest.raises(InvalidInput, match="slot"):
        await put(build, build.rollout(group, 2))
    with pytest.raises(NotFound):
        await put(build, build.rollout(new_id(), 0))


async def test_one_that_comes_late_is_recorded_as_late_with_its_trajectories(build: Builder) -> None:
    await build.declare()
    group = await build.open()
    await build.report(build.rollout(group, 0, calls=0), build.aborted(group, 1))
    late = build.rollout(group, 0, calls=2)
    before, after = build.scores(late)
    await build.send([before])
    for _ in range(2):
        assert await put(build, late) == Accepted(accepted=False, state="late")
    (result,) = (await build.send([after])).items
    assert result.accepted is False
    for id in late.body.executor_trajectories:
        assert (await build.get(f"/v1/trajectories/{id}", TrajectoryRecord)).state == "late"
    assert (await build.group(group)).final_slots == (0, 1)


async def test_a_trajectory_is_of_one_rollout_only(build: Builder) -> None:
    await build.declare()
    group = await build.open()
    first = build.rollout(group, 0)
    thief = build.rollout(group, 1, executor_trajectories=first.body.executor_trajectories)
    results = (await build.client.submit_rollouts([first, thief])).items
    assert [result.status for result in results] == [200, 409], "named by two in one request"
    with pytest.raises(Conflict, match=str(first.body.executor_trajectories[0])):
        await put(build, thief)
    score = build.score(new_id())
    await build.send([score])
    with pytest.raises(Conflict, match=score.id):
        await put(build, build.rollout(group, 1, executor_trajectories=(score.id,)))
    assert (await build.group(group)).final_slots == (0,), "nothing of a refused rollout is kept"


async def test_items_of_a_request_are_judged_one_by_one(build: Builder) -> None:
    await build.declare()
    group = await build.open()
    good, same_slot, elsewhere = build.rollout(group, 0), build.rollout(group, 0), build.rollout(new_id(), 0)
    changed = RolloutItem(id=good.id, body=good.body.model_copy(update={"tokens": 9}))
    result = await build.client.submit_rollouts([elsewhere, good, same_slot, changed, good, build.aborted(group, 1)])
    assert [item.status for item in result.items] == [404, 200, 409, 409, 200, 200]
    types = [item.problem and item.problem["type"] for item in result.items]
    assert types == ["urn:tandem:not-found", None, "urn:tandem:conflict", "urn:tandem:body-conflict", None, None]
    view = await build.group(group)
    assert (view.state, view.final_slots) == ("discarded", (0, 1))


async def test_a_request_may_hold_several_groups_steps_and_runs(build: Builder) -> None:
    await build.declare()
    other = await Builder(build.app, build.client, run="r2", spec=build.spec).declare()
    places = [(build, 1, 0), (build, 1, 1), (build, 2, 0), (other, 1, 0)]
    groups = [(builder, await builder.open(step, index)) for builder, step, index in places]
    await build.report(*[builder.rollout(group, slot) for slot in (0, 1) for builder, group in groups])
    assert {(await build.group(group)).state for _, group in groups} == {"complete"}


async def test_a_full_request_is_taken(build: Builder) -> None:
    await build.declare(rollouts_per_group=512, steps=1, groups_per_step=1)
    group = await build.open()
    rollouts = [build.rollout(group, slot) for slot in range(512)]
    assert all(item.accepted for item in (await build.report(*rollouts)).items)
    assert all(item.accepted for item in (await build.send([build.scores(r)[0] for r in rollouts])).items)
    view = await build.group(group)
    assert (view.state, view.scoring) == ("complete", "sealed")
