"""Resume: afterwards the tables say what the surviving weights contain, and nothing else."""

import pytest

from shared.errors import BodyConflict, Conflict, InvalidInput, InvalidTransition
from shared.schemas.base import Page
from shared.schemas.views import PolicyRow, RolloutView, TrajectoryRecord
from tests.integration.sync.builder import Builder, Trainer, owned


@pytest.fixture
async def run(build: Builder) -> Builder:
    """Five steps, of which three are ready for the executor."""
    await build.declare(steps=5, staleness=2)
    for step in (1, 2, 3):
        await build.fill(step)
    return build


@pytest.fixture
async def trainer(run: Builder) -> Trainer:
    """An executor's trainer at step 0."""
    trainer = run.trainer("executor")
    await trainer.resume()
    await trainer.confirm(0)
    return trainer


async def acked(build: Builder) -> list[int]:
    """The steps of the executor that are acked."""
    return [s.step for s in await build.client.steps(build.run) if s.role == "executor"]


async def fates(build: Builder, ids: list[str]) -> set[tuple[str, int | None]]:
    """State and multiplicity of trajectories."""
    records = [await build.get(f"/v1/trajectories/{id}", TrajectoryRecord) for id in ids]
    return {(record.state, record.multiplicity) for record in records}


async def test_what_comes_after_the_checkpoint_is_trained_again(run: Builder, trainer: Trainer) -> None:
    deliveries = [await trainer.train() for _ in range(3)]
    await trainer.resume(1)
    assert await acked(run) == [1]
    assert await fates(run, owned(deliveries[0])) == {("trained", 1)}
    for delivery in deliveries[1:]:
        assert await fates(run, owned(delivery)) == {("scored", None)}
    again = [await trainer.train() for _ in range(2)]
    assert [d.step for d in again] == [2, 3]
    assert [d.groups for d in again] == [d.groups for d in deliveries[1:]]
    assert await acked(run) == [1, 2, 3]


async def test_an_unscored_row_that_was_dropped_is_unscored_again(build: Builder) -> None:
    await build.declare(groups_per_step=1)
    group = await build.open()
    rollouts = [build.rollout(group, slot) for slot in (0, 1)]
    await build.report(*rollouts)
    unscored = {"status": "unscored", "reason": "judge-down", "r_format": None, "r_expert": None}
    await build.send(build.scores(rollouts[0]) + build.scores(rollouts[1], **unscored))
    trainer = build.trainer("executor")
    await trainer.resume()
    first = await trainer.delivery()
    bad = rollouts[1].body.executor_trajectories[0]
    await build.client.ack(build.run, "executor", trainer.ack_of(first, drop=[bad]))
    await trainer.resume()
    record = await build.get(f"/v1/trajectories/{bad}", TrajectoryRecord)
    assert (record.state, record.reason) == ("unscored", "judge-down")
    assert (await trainer.delivery()).groups == first.groups


async def test_the_planners_fates_are_taken_back_too(run: Builder) -> None:
    planner = run.trainer("planner")
    await planner.resume()
    delivery = await planner.train()
    rollout = delivery.groups[0].rollouts[0].id
    assert (await run.get(f"/v1/rollouts/{rollout}", RolloutView)).multiplicity == 1
    await planner.resume()
    assert (await run.get(f"/v1/rollouts/{rollout}", RolloutView)).multiplicity is None
    assert (await planner.train()).groups == delivery.groups


async def test_an_ack_that_never_went_out_is_recorded_from_the_checkpoint(run: Builder, trainer: Trainer) -> None:
    await trainer.train()
    delivery = await trainer.delivery()
    pending = trainer.ack_of(delivery)
    # It dies here: the checkpoint of step 2 is written, its ack was never sent.
    await trainer.resume(2, pending=pending)
    assert await acked(run) == [1, 2]
    assert await fates(run, owned(delivery)) == {("trained", 1)}
    assert (await trainer.train()).step == 3
    assert await acked(run) == [1, 2, 3]


async def test_it_is_recorded_after_an_expiry_and_a_takeover_that_did_not_ack(run: Builder, trainer: Trainer) -> None:
    pending = trainer.ack_of(await trainer.delivery())
    await run.expire_lease("executor")
    other = run.trainer("executor", "executor-2")
    await other.resume()
    await other.delivery()
    await run.expire_lease("executor")
    await trainer.resume(1, pending=pending)
    assert await acked(run) == [1]
    assert (await trainer.delivery()).step == 2


async def test_an_ack_that_did_go_out_is_not_recorded_twice(run: Builder, trainer: Trainer) -> None:
    delivery = await trainer.delivery()
    ack = await trainer.ack(delivery)
    before = await run.client.steps(run.run)
    await trainer.resume(1, pending=ack)
    assert await run.client.steps(run.run) == before
    assert await fates(run, owned(delivery)) == {("trained", 1)}


async def test_the_fates_are_those_of_the_weights_that_survive(run: Builder, trainer: Trainer) -> None:
    delivery = await trainer.delivery()
    first, *others = owned(delivery)
    pending = trainer.ack_of(delivery, drop=[first])
    # Its ack was refused, for another worker took over and acked the step with other weights, not yet published.
    await run.expire_lease("executor")
    other = run.trainer("executor", "executor-2")
    await other.resume()
    await other.ack(await other.delivery())
    await run.expire_lease("executor")
    await trainer.resume(1, pending=pending)
    assert await fates(run, [first]) == {("dropped", None)}
    assert await fates(run, others) == {("trained", 1)}
    assert await acked(run) == [1]


async def test_a_checkpoint_of_other_weights_than_the_samplers_have_is_refused(run: Builder, trainer: Trainer) -> None:
    ack = await trainer.ack(await trainer.delivery())
    await trainer.confirm(1, weights="ours")
    epoch = trainer.epoch
    with pytest.raises(BodyConflict, match="checksum"):
        await trainer.resume(1, pending=ack, weights="not ours")
    assert (await run.client.status(run.run)).roles["executor"].epoch == epoch
    await trainer.resume(1, pending=ack, weights="ours")
    with pytest.raises(BodyConflict, match="checksum"):
        await trainer.confirm(1, weights="not ours")
    await trainer.confirm(1, weights="ours")


async def test_superseded_weights_may_be_trained_anew_with_another_result(run: Builder, trainer: Trainer) -> None:
    for _ in range(2):
        await trainer.train()
    await trainer.resume(1)
    await trainer.ack(await trainer.delivery())
    await trainer.confirm(2, weights="another step 2")
    page = await run.get(f"/v1/runs/{run.run}/policies", Page[PolicyRow])
    assert [(p.epoch, p.step, p.superseded) for p in page.items] == [
        (1, 0, False),
        (1, 1, False),
        (1, 2, True),
        (2, 1, False),
        (2, 2, False),
    ]


async def test_a_step_that_is_not_acked_needs_its_ack(run: Builder, trainer: Trainer) -> None:
    delivery = await trainer.delivery()
    pending = trainer.ack_of(delivery)
    with pytest.raises(Conflict, match="pending_ack"):
        await trainer.resume(1)
    with pytest.raises(InvalidInput, match="pending_ack"):
        await trainer.resume(0, pending=pending)
    with pytest.raises(Conflict, match="never leased"):
        await trainer.resume(2, pending=pending.model_copy(update={"step": 2}))
    with pytest.raises(Conflict, match="never leased"):
        await trainer.resume(9, pending=pending.model_copy(update={"step": 9}))
    with pytest.raises(InvalidInput, match="missing"):
        await trainer.resume(1, pending=pending.model_copy(update={"fates": {}}))
    assert (await trainer.delivery()).step == 1, "a refused resume changes nothing"


async def test_a_step_that_was_never_leased_is_not_acked_by_a_checkpoint(build: Builder) -> None:
    await build.declare()
    await build.fill(1)
    trainer = build.trainer("executor")
    await trainer.resume()
    forged = trainer.ack_of(await build_delivery_without_lease(build))
    with pytest.raises(Conflict, match="never leased"):
        await trainer.resume(1, pending=forged)


async def build_delivery_without_lease(build: Builder):
    """The planner's view of step 1, which names none of the executor's rows."""
    planner = build.trainer("planner")
    await planner.resume()
    return await planner.delivery()


async def test_a_finished_run_whose_weights_lack_its_last_step_trains_that_again(build: Builder) -> None:
    await build.declare(steps=1)
    await build.fill(1)
    trainers = [build.trainer(role) for role in ("planner", "executor")]
    for trainer in trainers:
        await trainer.resume()
        await trainer.train()
    await trainers[1].resume(1)
    assert (await trainers[1].lease()).finished
    await trainers[1].resume(0)
    assert (await build.client.run(build.run)).state == "draining"
    await trainers[1].train()
    assert (await build.client.run(build.run)).state == "finished"


async def test_a_failed_run_makes_nothing_ready_again(build: Builder) -> None:
    await build.declare(steps=2)
    await build.fill(1)
    trainer = build.trainer("executor")
    await trainer.resume()
    await trainer.train()
    await build.client.fail(build.run, "out-of-luck")
    with pytest.raises(InvalidTransition, match="failed"):
        await trainer.resume(0)
    await trainer.resume(1)
    assert (await trainer.lease()).finished


async def test_the_last_ack_finishes_the_run_when_it_comes_with_a_checkpoint(build: Builder) -> None:
    await build.declare(steps=1, trained_roles=("executor",))
    await build.fill(1)
    trainer = build.trainer("executor")
    await trainer.resume()
    await trainer.resume(1, pending=trainer.ack_of(await trainer.delivery()))
    assert (await build.client.run(build.run)).state == "finished"
    assert (await trainer.lease()).finished
