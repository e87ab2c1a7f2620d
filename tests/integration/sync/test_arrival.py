"""Cutter `arrival` (arm `unsynchronised`): the executor's delivery is what is scored by the time of the cut."""

import pytest

from shared.schemas.views import TrajectoryRecord
from tests.integration.sync.builder import Builder, owned


@pytest.fixture
async def run(build: Builder) -> Builder:
    """Two steps of two groups of two rollouts."""
    return await build.declare(steps=2, cutter="arrival", alignment="none", staleness=1)


async def state(build: Builder, id: str) -> tuple[str, str | None, int | None]:
    """State, reason and step of a trajectory."""
    record = await build.get(f"/v1/trajectories/{id}", TrajectoryRecord)
    return record.state, record.reason, record.step


async def test_a_delivery_holds_what_is_scored_by_the_cut_and_the_next_one_the_rest(run: Builder) -> None:
    executor, planner = run.trainer("executor"), run.trainer("planner")
    await executor.resume()
    await planner.resume()
    groups = [await run.open(1, 0), await run.open(1, 1), await run.open(2, 0)]
    rollouts = [run.rollout(group, slot) for group in groups for slot in (0, 1)]
    early, slow, ahead = rollouts[0], rollouts[1], rollouts[4]
    await run.report(early, slow, ahead)
    await run.send(run.scores(early) + run.scores(ahead))
    await run.report(rollouts[2], rollouts[3])  # the cut: two rows are scored, one of them of step 2
    first = await executor.delivery()
    assert first.step == 1
    assert sorted(owned(first)) == sorted(early.body.executor_trajectories + ahead.body.executor_trajectories)
    assert [(g.step, g.state, [r.id for r in g.rollouts]) for g in first.groups] == [
        (1, "complete", [early.id]),
        (2, "open", [ahead.id]),
    ]
    assert [g.step for g in (await planner.train()).groups] == [1, 1], "the planner's is as ever"
    await run.send([score for r in (slow, rollouts[2], rollouts[3]) for score in run.scores(r)])
    await executor.ack(first)
    await run.report(rollouts[5])
    last = await run.open(2, 1)
    await run.report(run.rollout(last, 0, calls=0), run.rollout(last, 1, calls=0))
    second = await executor.delivery()
    late_rows = [id for r in (slow, rollouts[2], rollouts[3]) for id in r.body.executor_trajectories]
    assert sorted(owned(second)) == sorted(late_rows)
    await executor.ack(second)
    (after_all,) = run.scores(rollouts[5])
    (result,) = (await run.send([after_all])).items
    assert result.accepted is False, "no cut comes that could still take it"
    await planner.train()
    assert (await run.client.run(run.run)).state == "finished"


async def test_an_empty_delivery_is_skipped(run: Builder) -> None:
    executor = run.trainer("executor")
    await executor.resume()
    await run.fill(1, scored=False)
    delivery = await executor.delivery()
    assert delivery.groups == ()
    await executor.ack(delivery, skipped="empty-batch")


async def test_a_row_in_a_delivery_stays_though_its_group_is_discarded(run: Builder) -> None:
    executor = run.trainer("executor")
    await executor.resume()
    ahead = await run.open(2, 0)
    delivered, waiting = run.rollout(ahead, 0, calls=2), None
    await run.report(delivered)
    first, second = run.scores(delivered)
    await run.send([first])
    await run.fill(1, calls=0)
    delivery = await executor.delivery()
    assert owned(delivery) == [first.id]
    await run.send([second])
    await run.post(f"/v1/groups/{ahead}:discard")
    assert await state(run, first.id) == ("scored", None, 1)
    assert await state(run, second.id) == ("dropped", "discarded", None)
    await executor.ack(delivery)
    assert (await state(run, first.id))[0] == "trained"
    assert waiting is None


async def test_a_resume_gives_back_the_same_deliveries(run: Builder) -> None:
    executor = run.trainer("executor")
    await executor.resume()
    await run.fill(1)
    slow = await run.open(2, 0)
    await run.open(2, 1)
    rollout = run.rollout(slow, 0)
    await run.report(rollout)
    await run.send(run.scores(rollout))
    first = await executor.delivery()
    await executor.ack(first)
    await executor.resume()
    assert (await executor.delivery()).groups == first.groups


async def test_what_is_unscored_ends_at_the_seal(run: Builder) -> None:
    group = await run.open(1, 0)
    rollouts = [run.rollout(group, slot) for slot in (0, 1)]
    await run.report(*rollouts)
    unscored = {"status": "unscored", "reason": "judge-down", "r_format": None, "r_expert": None}
    await run.send(run.scores(rollouts[0], **unscored) + run.scores(rollouts[1]))
    assert await state(run, rollouts[0].body.executor_trajectories[0]) == ("dropped", "unscored", None)


async def test_what_is_left_when_nothing_more_is_cut_is_dropped(run: Builder) -> None:
    rollouts = await run.fill(1, scored=False)
    scores = [score for rollout in rollouts for score in run.scores(rollout)]
    await run.send(scores)
    await run.client.drain(run.run)
    assert await state(run, scores[0].id) == ("dropped", "drained", None)
