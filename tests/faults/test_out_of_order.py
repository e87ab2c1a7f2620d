"""What comes twice, too early or too late: answered as it should be, and counted once or not at all."""

import asyncio
import random
from collections import Counter

from shared.client import SyncClient
from tests.integration.sync.builder import Builder


async def test_a_storm_of_duplicates_is_answered_alike_and_counted_once(build: Builder, port: int) -> None:
    """Eight callers with connections of their own send the same 48 rollouts and their scores, each in its own order."""
    await build.declare(groups_per_step=6, rollouts_per_group=8)
    groups = [await build.open(1, index) for index in range(6)]
    rollouts = [build.rollout(group, slot, calls=2) for group in groups for slot in range(8)]
    scores = [score for rollout in rollouts for score in build.scores(rollout)]
    answers: Counter[tuple[int, bool | None]] = Counter()

    async def storm(seed: int) -> None:
        async with SyncClient(f"http://127.0.0.1:{port}") as client:
            dice = random.Random(seed)
            ours, theirs = dice.sample(rollouts, len(rollouts)), dice.sample(scores, len(scores))
            parts = [client.submit_rollouts(ours[n : n + 7]) for n in range(0, 48, 7)]
            parts += [client.submit_trajectories(theirs[n : n + 13]) for n in range(0, 96, 13)]
            for result in await asyncio.gather(*parts):
                answers.update((item.status, item.accepted) for item in result.items)

    await asyncio.gather(*[storm(seed) for seed in range(8)])
    assert answers == {(200, True): 8 * (48 + 96)}
    counts = await build.sql("SELECT final, reported, state, scoring FROM groups")
    assert {tuple(row) for row in counts} == {(8, 8, "complete", "sealed")}
    status = await build.client.status(build.run)
    assert (status.rollouts, status.trajectories) == ({"reported": 48}, {"scored": 96})


async def test_a_late_trajectory_is_kept_and_never_trained(build: Builder) -> None:
    await build.declare(groups_per_step=1, trained_roles=("executor",))
    group = await build.open()
    rollouts = [build.rollout(group, slot) for slot in (0, 1)]
    await build.report(*rollouts)
    (punctual,), (late,) = map(build.scores, rollouts)
    await build.send([punctual])
    await build.pass_deadline("score_deadline", group)
    (answer,) = (await build.send([late])).items
    assert answer.accepted is False
    trainer = build.trainer("executor")
    await trainer.resume()
    delivery = await trainer.delivery()
    ack = trainer.ack_of(delivery, drop=[late.id])
    await build.client.ack(build.run, "executor", ack)
    assert (await build.send([late, punctual])).items[0].accepted is False
    states = await build.sql("SELECT id::text, state, multiplicity, r_expert FROM trajectories")
    assert {tuple(row) for row in states} == {(punctual.id, "trained", 1, 0.5), (late.id, "late", None, 0.5)}


async def test_scores_before_their_rollouts_make_the_same_batch(build: Builder) -> None:
    await build.declare(groups_per_step=1)
    group = await build.open()
    rollouts = [build.rollout(group, slot, calls=3) for slot in (0, 1)]
    scores = [score for rollout in rollouts for score in build.scores(rollout)]
    await asyncio.gather(*[build.send([score]) for score in scores])
    assert (await build.group(group)).state == "open"
    await build.report(*rollouts)
    assert (await build.group(group)).scoring == "sealed"
    trainer = build.trainer("executor")
    await trainer.resume()
    (delivered,) = (await trainer.delivery()).groups
    rows = [row for rollout in delivered.rollouts for row in rollout.executor_trajectories]
    assert {(row.id, row.state) for row in rows} == {(score.id, "scored") for score in scores}


async def test_a_score_that_its_late_rollout_does_not_name_is_an_orphan(build: Builder) -> None:
    """It came before its rollout, which came after its group was closed: nothing else will ever move it."""
    await build.declare()
    group = await build.open()
    late = build.rollout(group, 0, calls=0)
    await build.send([build.score(late.id)])
    await build.pass_deadline("deadline", group)
    await build.report(late)
    (row,) = await build.sql("SELECT state, reason FROM trajectories")
    assert tuple(row) == ("orphan", "not-named")
