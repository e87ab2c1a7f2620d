"""`tandem audit`: what the trainers' own batches acked is clean; a row that was changed behind them is found."""

from collections.abc import Sequence

import pytest

from executor_server.batch import executor_batch
from planner_server.batch import planner_batch
from shared.policy.policy import UpdateResult
from shared.policy.types import Trajectory
from shared.schemas import Role
from shared.schemas.stream import Ack, DeliveryView
from tests.integration.cli.command import Tandem
from tests.integration.sync.builder import VERSION, Builder, Trainer, owned

CORRECT = (1.0, 0.0, 0.5, 0.25)
SCORE = (1.0, 0.25, 0.5, 0.0)
TERMS_ON = {"correct": 0.6, "protocol": 0.1, "efficiency": 0.1, "diversity": 0.1, "budget": {"calls": 8}}
EXPERT = (0.9, 0.1, 0.4, 0.6, 0.2)


def stored(ids: Sequence[str], role: Role) -> dict[str, Trajectory]:
    """What a server's store holds."""
    return {id: Trajectory(id, "r1", role, [place], [1], [-0.5], VERSION) for place, id in enumerate(ids)}


def acked(build: Builder, trainer: Trainer, view: DeliveryView, updates: int) -> Ack:
    """What the role's trainer says of the delivery, without a model."""
    batch = {"planner": planner_batch, "executor": executor_batch}[view.role]
    made = batch(view, stored(owned(view), trainer.role), build.spec, updates)
    trained = any(not row.dead for row in made.rows)
    result = UpdateResult(skipped=not trained, updates=updates + trained, statistics={})
    return made.ack(trainer.epoch, view.step, result)


async def walk(build: Builder, **changes: object) -> list[str]:
    """Two steps: rollouts with 1 to `d_max` + 1 calls, an aborted slot, an unscored row, a dead group. All groups."""
    await build.declare(steps=2, groups_per_step=2, rollouts_per_group=5, d_max=3, **changes)
    trainers = [build.trainer(role) for role in ("planner", "executor")]
    for trainer in trainers:
        await trainer.resume()
        await trainer.confirm(0)
    groups = []
    for step in (1, 2):
        for index in (0, 1):
            groups.append(await fill(build, step, index))
        for trainer in trainers:
            delivery = await trainer.delivery()
            ack = acked(build, trainer, delivery, trainer.updates)
            await build.client.ack("r1", trainer.role, ack)
            trainer.updates = ack.updates
            if ack.outcome == "trained":
                await build.client.publish("r1", trainer.role, trainer.epoch, step, published(trainer, step))
    return groups


def published(trainer: Trainer, step: int):
    from shared.schemas.stream import PolicyPublish
    from tests.integration.sync.builder import checksum

    return PolicyPublish(worker=trainer.worker, updates=trainer.updates, checksum=checksum(f"{trainer.role} {step}"))


async def fill(build: Builder, step: int, index: int) -> str:
    group = await build.open(step, index)
    right = (1.0,) * 4 if index else CORRECT  # the second group of a step is dead, for the planner
    terms = [f"r_{term}" for term in build.spec.planner_reward.terms]
    rollouts = []
    for slot in range(4):
        scored = {name: SCORE[(slot + at) % 4] for at, name in enumerate(terms)}
        rollouts.append(build.rollout(group, slot, calls=slot + 1, r_correct=right[slot], **scored))
    await build.report(*rollouts, build.aborted(group, 4))
    scores = [score for rollout in rollouts for score in build.scores(rollout)]
    marked = [
        build.score(s.body.rollout, s.id, r_expert=EXPERT[place % 5], r_format=1) for place, s in enumerate(scores[:-1])
    ]
    unscored = {"status": "unscored", "reason": "judge-failed", "r_format": None, "r_expert": None}
    await build.send([*marked, build.score(scores[-1].body.rollout, scores[-1].id, **unscored)])
    return group


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"alignment": "expected"},
        {"alignment": "none", "cutter": "arrival"},
        {"staleness": 0},
        {"planner_reward": TERMS_ON},
    ],
    ids=lambda changes: "-".join(changes) or "copies",
)
async def test_what_the_trainers_acked_is_clean(build: Builder, viewer: Tandem, changes: dict):
    for group in await walk(build, **changes):
        outcome = await viewer("audit", group)
        assert (outcome.code, outcome.lines[-1]) == (0, "OK: the record is what is computed from it"), outcome.out


FATE, MEAN = "fate of", "statistic reward_mean"
TAMPERED = {
    "a multiplicity": (
        "UPDATE trajectories SET multiplicity = multiplicity + 1 WHERE id = CAST(:id AS uuid)",
        "fate of",
    ),
    "a fate": (
        "UPDATE trajectories SET state = 'dropped', multiplicity = NULL, reason = 'stale' WHERE id = CAST(:id AS uuid)",
        "fate of",
    ),
    "an expert score": (
        "UPDATE trajectories SET r_expert = 0.33 WHERE id = CAST(:id AS uuid)",
        "statistic reward_mean",
    ),
    "a reward": (
        "UPDATE rollouts SET r_correct = 0.77 WHERE id = (SELECT rollout_id FROM trajectories"
        " WHERE id = CAST(:id AS uuid))",
        "statistic reward_mean",
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
async def test_a_row_that_was_changed_is_found(build: Builder, viewer: Tandem, what: str):
    group, *_ = await walk(build)
    parts = (await viewer("audit", group, "--json")).json["parts"]
    (row, *_) = [row for row in parts[1]["rows"] if isinstance(row["fate"], int)]
    statement, said = TAMPERED[what]
    await build.sql(statement, id=row["id"])
    outcome = await viewer("audit", group, "--json")
    assert outcome.code == 1
    found = [difference for difference in outcome.json["differences"] if said in difference["what"]]
    assert found
    assert found[0]["recorded"] != found[0]["computed"]
    if said == FATE:
        assert found[0]["what"] == f"fate of {row['id']}"
        assert (await viewer("audit", group, "--no-whole-step")).code == 1


async def test_a_score_of_a_reward_term_that_was_changed_is_found(build: Builder, viewer: Tandem):
    group, *_ = await walk(build, planner_reward=TERMS_ON)
    spoil = "UPDATE rollouts SET r_efficiency = 0.77 WHERE group_id = CAST(:group AS uuid) AND slot = 0"
    await build.sql(spoil, group=group)
    outcome = await viewer("audit", group, "--json")
    assert outcome.code == 1
    found = {difference["what"] for difference in outcome.json["differences"]}
    assert any("statistic efficiency_mean" in what for what in found)
    assert any("statistic reward_mean" in what for what in found)


async def test_what_cannot_be_compared_is_said(build: Builder, viewer: Tandem):
    await build.declare(groups_per_step=1)
    (rollout, *_) = await build.fill(1)
    outcome = await viewer("audit", rollout.body.group)
    assert outcome.code == 0
    assert outcome.lines[-1] == "there was nothing to compare"
    assert outcome.lines[0] == "note: the planner has not acked step 1: nothing is recorded yet"
    assert "there is no group" in (await viewer("audit", rollout.id)).fault
