"""Batches: cut once, and what each role's delivery of them holds."""

from shared.schemas.base import Page
from shared.schemas.views import DeliveryRow
from tests.integration.sync.builder import Builder, owned


async def states(build: Builder) -> dict[tuple[int, str], str]:
    """The state of each delivery, by step and role."""
    page = await build.get(f"/v1/runs/{build.run}/deliveries", Page[DeliveryRow])
    return {(row.step, row.role): row.state for row in page.items}


async def test_the_planner_waits_for_the_cut_and_the_executor_for_the_seal(build: Builder) -> None:
    await build.declare()
    first, second = await build.open(1, 0), await build.open(1, 1)
    rollouts = {group: [build.rollout(group, slot) for slot in (0, 1)] for group in (first, second)}
    await build.report(*rollouts[first])
    await build.send([score for rollout in rollouts[first] for score in build.scores(rollout)])
    assert await states(build) == {(1, "planner"): "waiting", (1, "executor"): "waiting"}
    await build.report(*rollouts[second])
    assert await states(build) == {(1, "planner"): "ready", (1, "executor"): "waiting"}
    await build.send([score for rollout in rollouts[second] for score in build.scores(rollout)])
    assert await states(build) == {(1, "planner"): "ready", (1, "executor"): "ready"}


async def test_the_planner_gets_the_reported_rollouts_with_their_rewards(build: Builder) -> None:
    await build.declare(rollouts_per_group=3)
    groups = [await build.open(1, index) for index in (0, 1)]
    good, bad = build.rollout(groups[0], 0, calls=2, r_correct=0.75), build.rollout(groups[0], 2, r_format=0, calls=0)
    await build.report(good, build.aborted(groups[0], 1), bad)
    await build.report(*[build.rollout(groups[1], slot, calls=0) for slot in range(3)])
    planner = build.trainer("planner")
    await planner.resume()
    delivery = await planner.delivery()
    assert [(group.id, group.step, group.index, group.state) for group in delivery.groups] == [
        (groups[0], 1, 0, "complete"),
        (groups[1], 1, 1, "complete"),
    ]
    first, second = delivery.groups[0].rollouts
    assert (first.id, first.slot, first.calls) == (good.id, 0, 2)
    assert (first.planner_trajectory, first.r_format, first.r_correct) == (good.body.planner_trajectory, 1, 0.75)
    assert (first.version, first.executor_trajectories) == (good.body.version, ())
    assert (second.id, second.r_format, second.calls) == (bad.id, 0, 0)


async def test_the_executor_gets_every_slot_with_its_own_scores(build: Builder) -> None:
    await build.declare(rollouts_per_group=4, groups_per_step=1)
    group = await build.open()
    two, none, hurt = (
        build.rollout(group, 0, calls=2, r_correct=0.5),
        build.rollout(group, 1, calls=0),
        build.aborted(group, 2),
    )
    odd = build.rollout(group, 3, calls=1)
    await build.report(two, none, hurt, odd)
    best, worst = build.scores(two)[0], build.scores(two, r_format=0, r_expert=None)[1]
    (failed,) = build.scores(odd, status="unscored", reason="judge-down", r_format=None, r_expert=None)
    await build.send([best, worst, failed])
    executor = build.trainer("executor")
    await executor.resume()
    (delivered,) = (await executor.delivery()).groups
    by_id = {rollout.id: rollout for rollout in delivered.rollouts}
    assert [rollout.slot for rollout in delivered.rollouts] == [0, 1, 2, 3]
    assert [(t.id, t.state, t.r_format, t.r_expert) for t in by_id[two.id].executor_trajectories] == [
        (best.id, "scored", 1, 0.5),
        (worst.id, "scored", 0, None),
    ]
    assert (by_id[two.id].r_correct, by_id[two.id].calls) == (0.5, 2)
    assert (by_id[none.id].calls, by_id[none.id].executor_trajectories) == (0, ())
    assert (by_id[hurt.id].status, by_id[hurt.id].reason) == ("aborted", "executor-unreachable")
    (unscored,) = by_id[odd.id].executor_trajectories
    assert (unscored.state, unscored.reason, unscored.r_expert) == ("unscored", "judge-down", None)


async def test_a_score_that_did_not_come_in_time_is_delivered_as_awaited(build: Builder) -> None:
    await build.declare(groups_per_step=1)
    group = await build.open()
    rollouts = [build.rollout(group, slot) for slot in (0, 1)]
    await build.report(*rollouts)
    await build.send(build.scores(rollouts[0]))
    await build.pass_deadline("score_deadline", group)
    await build.send([build.score(rollouts[0].id)])  # anything that concerns the group settles it
    executor = build.trainer("executor")
    await executor.resume()
    delivery = await executor.delivery()
    states = [t.state for r in delivery.groups[0].rollouts for t in r.executor_trajectories]
    assert states == ["scored", "awaited"]
    await build.client.ack(build.run, "executor", executor.ack_of(delivery, drop=[owned(delivery)[1]]))


async def test_a_discarded_group_is_delivered_empty(build: Builder) -> None:
    await build.declare()
    kept, lost = await build.open(1, 0), await build.open(1, 1)
    await build.report(*[build.rollout(kept, slot, calls=0) for slot in (0, 1)])
    await build.report(build.rollout(lost, 0), build.aborted(lost, 1))
    for role in ("planner", "executor"):
        trainer = build.trainer(role)
        await trainer.resume()
        delivery = await trainer.train()
        assert [(g.id, g.state, len(g.rollouts)) for g in delivery.groups] == [
            (kept, "complete", 2),
            (lost, "discarded", 0),
        ]


async def test_a_batch_with_nothing_in_it_is_delivered_and_skipped(build: Builder) -> None:
    await build.declare(steps=1)
    for index in (0, 1):
        group = await build.open(1, index)
        await build.report(build.aborted(group, 0), build.aborted(group, 1))
    for role in ("planner", "executor"):
        trainer = build.trainer(role)
        await trainer.resume()
        delivery = await trainer.delivery()
        assert owned(delivery) == []
        await trainer.ack(delivery, skipped="empty-batch")
    assert (await build.client.run(build.run)).state == "finished"


async def test_a_role_that_does_not_train_has_no_deliveries_and_holds_nobody(build: Builder) -> None:
    await build.declare(trained_roles=("planner",), steps=2, staleness=0)
    planner = build.trainer("planner")
    await planner.resume()
    await build.fill(1, scored=False)
    assert await states(build) == {(1, "planner"): "ready"}
    await planner.train()
    await build.fill(2, scored=False)
    await planner.train()
    status = await build.client.status(build.run)
    assert (status.state, list(status.roles)) == ("finished", ["planner"])


async def test_a_step_that_is_full_before_the_one_below_it_waits_for_it(build: Builder) -> None:
    await build.declare()
    await build.fill(2)
    planner = build.trainer("planner")
    await planner.resume()
    assert (await states(build))[2, "planner"] == "ready"
    assert (await planner.lease()).delivery is None
    await build.fill(1)
    assert [(await planner.train()).step for _ in range(2)] == [1, 2]
