"""Streams: one trainer holds a role's deliveries, in order, under an epoch."""

import pytest

from shared.errors import BodyConflict, Conflict, InvalidInput, InvalidTransition, LeaseLost, NotFound, StreamHeld
from shared.ids import new_id
from shared.schemas import Role
from shared.schemas.base import Page
from shared.schemas.stream import Ack
from shared.schemas.views import DeliveryRow, RolloutView, TrajectoryRecord
from sync_service import reaper
from tests.integration.sync.builder import Builder, Trainer, owned


@pytest.fixture
async def filled(build: Builder) -> Builder:
    """A run whose first two steps are ready for both roles."""
    await build.declare()
    await build.fill(1)
    await build.fill(2)
    return build


async def ready(build: Builder, role: Role = "executor") -> Trainer:
    """A trainer that holds the stream."""
    trainer = build.trainer(role)
    await trainer.resume()
    return trainer


async def delivery_row(build: Builder, role: Role, step: int) -> DeliveryRow:
    """One delivery as a list shows it."""
    page = await build.get(f"/v1/runs/{build.run}/deliveries", Page[DeliveryRow])
    (row,) = [row for row in page.items if (row.role, row.step) == (role, step)]
    return row


async def test_a_stream_must_be_resumed_before_it_is_leased(filled: Builder) -> None:
    trainer = filled.trainer("planner")
    with pytest.raises(LeaseLost):
        await trainer.lease()


async def test_a_lease_is_answered_again_under_its_epoch(filled: Builder) -> None:
    trainer = await ready(filled)
    assert await trainer.delivery() == await trainer.delivery()


async def test_no_step_is_leased_while_a_lower_one_is_unacked(filled: Builder) -> None:
    trainer = await ready(filled)
    first = await trainer.delivery()
    await trainer.ack(first)
    second = await trainer.delivery()
    assert (first.step, second.step) == (1, 2)
    with pytest.raises(InvalidInput, match="no delivery of step 3"):
        await filled.client.ack(filled.run, "executor", Ack(epoch=1, step=3, outcome="trained", updates=3, fates={}))


async def test_an_ack_needs_a_leased_delivery(filled: Builder) -> None:
    trainer = await ready(filled)
    first = await trainer.delivery()
    later = trainer.ack_of(first).model_copy(update={"step": 2})
    with pytest.raises(InvalidTransition, match="ready"):
        await filled.client.ack(filled.run, "executor", later)


async def test_the_same_ack_again_is_answered_as_before_and_another_one_is_a_conflict(filled: Builder) -> None:
    trainer = await ready(filled)
    delivery = await trainer.delivery()
    ack = await trainer.ack(delivery)
    await filled.client.ack(filled.run, "executor", ack)
    await filled.expire_lease("executor")
    await filled.client.ack(filled.run, "executor", ack)
    with pytest.raises(BodyConflict):
        await filled.client.ack(filled.run, "executor", ack.model_copy(update={"updates": 9}))
    (statistics,) = await filled.client.steps(filled.run)
    assert (statistics.updates, statistics.statistics) == (1, {"reward": 0.5})
    assert statistics.histograms == {"calls": {"0": 1, "1": 2}}


async def test_an_ack_records_what_became_of_each_row(filled: Builder) -> None:
    executor, planner = await ready(filled, "executor"), await ready(filled, "planner")
    for trainer in (executor, planner):
        delivery = await trainer.delivery()
        first, *others = owned(delivery)
        ack = trainer.ack_of(delivery)
        fates = {first: "stale", others[0]: 3} | dict.fromkeys(others[1:], 1)
        await filled.client.ack(filled.run, trainer.role, ack.model_copy(update={"fates": fates}))
        if trainer.role == "executor":
            records = [await filled.get(f"/v1/trajectories/{id}", TrajectoryRecord) for id in (first, others[0])]
            assert [(r.state, r.reason, r.multiplicity) for r in records] == [
                ("dropped", "stale", None),
                ("trained", None, 3),
            ]
        else:
            rollouts = {r.planner_trajectory: r.id for g in delivery.groups for r in g.rollouts}
            views = [await filled.get(f"/v1/rollouts/{rollouts[id]}", RolloutView) for id in (first, others[0])]
            assert [(v.fate_reason, v.multiplicity) for v in views] == [("stale", None), (None, 3)]


async def test_an_ack_names_every_row_of_the_delivery_and_no_other(filled: Builder) -> None:
    for role in ("executor", "planner"):
        trainer = await ready(filled, role)
        delivery = await trainer.delivery()
        ack = trainer.ack_of(delivery)
        missing = dict(list(ack.fates.items())[1:])
        with pytest.raises(InvalidInput, match="missing"):
            await filled.client.ack(filled.run, role, ack.model_copy(update={"fates": missing}))
        with pytest.raises(InvalidInput, match="not of the delivery"):
            await filled.client.ack(filled.run, role, ack.model_copy(update={"fates": ack.fates | {new_id(): 1}}))
        with pytest.raises(InvalidInput, match="skipped"):
            await filled.client.ack(filled.run, role, ack.model_copy(update={"outcome": "skipped"}))
        assert (await delivery_row(filled, role, 1)).state == "leased"


async def test_a_row_without_a_score_cannot_be_trained(build: Builder) -> None:
    await build.declare(groups_per_step=1)
    group = await build.open()
    rollouts = [build.rollout(group, slot) for slot in (0, 1)]
    await build.report(*rollouts)
    unscored = {"status": "unscored", "reason": "judge-down", "r_format": None, "r_expert": None}
    await build.send(build.scores(rollouts[0]) + build.scores(rollouts[1], **unscored))
    trainer = await ready(build)
    delivery = await trainer.delivery()
    with pytest.raises(InvalidTransition, match="cannot be trained"):
        await trainer.ack(delivery)
    bad = rollouts[1].body.executor_trajectories[0]
    await build.client.ack(build.run, "executor", trainer.ack_of(delivery, drop=[bad]))
    assert (await build.get(f"/v1/trajectories/{bad}", TrajectoryRecord)).state == "dropped"


async def test_a_stale_epoch_is_lease_lost_everywhere(filled: Builder) -> None:
    zombie = await ready(filled)
    delivery = await zombie.delivery()
    await filled.expire_lease("executor")
    other = filled.trainer("executor", "executor-2")
    await other.resume()
    for call in (
        zombie.lease(),
        zombie.renew(),
        zombie.ack(delivery),
        zombie.confirm(0),
        zombie.release(),
        zombie.release("out-of-memory"),
    ):
        with pytest.raises(LeaseLost):
            await call
    again = await other.delivery()
    assert (again.step, again.epoch, again.groups) == (1, 2, delivery.groups)
    await other.ack(again)


async def test_another_workers_name_does_not_do_under_the_same_epoch(filled: Builder) -> None:
    trainer = await ready(filled)
    impostor = Trainer(filled.client, filled.run, "executor", "executor-2", epoch=trainer.epoch)
    for call in (impostor.lease(), impostor.renew(), impostor.release()):
        with pytest.raises(LeaseLost):
            await call


async def test_a_live_lease_is_not_taken_over_but_its_own_worker_takes_it_back_at_once(filled: Builder) -> None:
    trainer = await ready(filled)
    await trainer.delivery()
    other = filled.trainer("executor", "executor-2")
    with pytest.raises(StreamHeld, match="executor-1"):
        await other.resume()
    assert await trainer.resume() == 2
    row = await delivery_row(filled, "executor", 1)
    assert (row.state, row.attempts) == ("ready", 0)
    assert (await trainer.delivery()).step == 1


async def test_the_clock_of_the_database_ends_a_lease_before_any_reaper_does(filled: Builder) -> None:
    trainer = await ready(filled)
    delivery = await trainer.delivery()
    await filled.expire_lease("executor")
    for call in (trainer.renew(), trainer.lease(), trainer.ack(delivery)):
        with pytest.raises(LeaseLost, match="over"):
            await call
    assert (await filled.client.status(filled.run)).roles["executor"].worker is None


async def test_a_renewed_lease_lives_on(filled: Builder) -> None:
    trainer = await ready(filled)
    delivery = await trainer.delivery()
    almost = "UPDATE streams SET expires_at = now() + interval '5 s' WHERE role = 'executor'"
    left = "SELECT extract(epoch FROM expires_at - now()) AS s FROM streams WHERE role = 'executor'"
    for sign_of_life in (trainer.renew, trainer.lease):
        await filled.sql(almost)
        await sign_of_life()
        (row,) = await filled.sql(left)
        assert 25 < row.s <= 30
    await trainer.ack(delivery)


async def test_the_reaper_makes_an_expired_delivery_ready_and_counts_the_attempt(filled: Builder) -> None:
    trainer = await ready(filled)
    await trainer.delivery()
    await reaper.sweep(filled.app.state.service.database)
    assert (await delivery_row(filled, "executor", 1)).state == "leased"
    await filled.expire_lease("executor")
    assert await reaper.sweep(filled.app.state.service.database) == {filled.run}
    row = await delivery_row(filled, "executor", 1)
    assert (row.state, row.attempts, row.error) == ("ready", 1, "lease-expired")
    await trainer.resume()
    assert (await trainer.delivery()).attempt == 2


async def test_an_expired_lease_that_leased_nothing_costs_no_attempt(filled: Builder) -> None:
    await ready(filled)
    await filled.expire_lease("executor")
    await reaper.sweep(filled.app.state.service.database)
    assert (await delivery_row(filled, "executor", 1)).attempts == 0


async def test_a_release_gives_the_step_back_and_counts_only_with_an_error(filled: Builder) -> None:
    trainer = await ready(filled)
    await trainer.delivery()
    await trainer.release()
    await trainer.release()
    row = await delivery_row(filled, "executor", 1)
    assert (row.state, row.attempts) == ("ready", 0)
    with pytest.raises(LeaseLost):
        await trainer.lease()
    other = filled.trainer("executor", "executor-2")
    await other.resume()
    await other.delivery()
    await other.release("out-of-memory")
    row = await delivery_row(filled, "executor", 1)
    assert (row.state, row.attempts, row.error) == ("ready", 1, "out-of-memory")


async def kill(build: Builder, attempts: int) -> str:
    """Fail the executor's first step so often, by turns with an error and by expiry; its delivery's id."""
    trainer = build.trainer("executor")
    for attempt in range(attempts):
        await trainer.resume()
        await trainer.delivery()
        if attempt % 2:
            await build.expire_lease("executor")
        else:
            await trainer.release("cuda-error")
    await reaper.sweep(build.app.state.service.database)
    return (await delivery_row(build, "executor", 1)).id


async def test_after_its_last_attempt_a_delivery_is_dead_and_stops_its_role(build: Builder) -> None:
    await build.declare(max_attempts=3)
    await build.fill(1)
    await kill(build, 2)
    assert (await delivery_row(build, "executor", 1)).state == "ready"
    trainer = await ready(build)
    await trainer.delivery()
    await trainer.release("cuda-error")
    row = await delivery_row(build, "executor", 1)
    assert (row.state, row.attempts, row.error) == ("dead", 3, "cuda-error")
    await trainer.resume()
    answer = await trainer.lease()
    assert (answer.delivery, answer.finished) == (None, False)
    status = await build.client.status(build.run)
    assert status.roles["executor"].dead == 1
    assert "executor waits for the operator: step 1 is dead after 3 attempts (cuda-error)" in status.waiting_for
    planner = await ready(build, "planner")
    await planner.train()


async def test_an_operator_requeues_a_dead_delivery(build: Builder) -> None:
    await build.declare(max_attempts=2)
    await build.fill(1)
    dead = await kill(build, 2)
    for _ in range(2):
        row = await build.post(f"/v1/deliveries/{dead}:requeue")
        assert (row["state"], row["attempts"]) == ("ready", 0)
    trainer = await ready(build)
    await trainer.train()
    for verb in ("requeue", "skip"):
        with pytest.raises(InvalidTransition, match="acked"):
            await build.post(f"/v1/deliveries/{dead}:{verb}")
        with pytest.raises(NotFound):
            await build.post(f"/v1/deliveries/{new_id()}:{verb}")


async def test_an_operator_skips_a_dead_delivery_and_no_resume_brings_it_back(build: Builder) -> None:
    await build.declare(max_attempts=2, steps=2)
    rollouts = await build.fill(1)
    await build.fill(2)
    dead = await kill(build, 2)
    for _ in range(2):
        row = await build.post(f"/v1/deliveries/{dead}:skip")
        assert (row["state"], row["outcome"], row["reason"]) == ("acked", "skipped", "by-operator")
    (id,) = rollouts[0].body.executor_trajectories
    record = await build.get(f"/v1/trajectories/{id}", TrajectoryRecord)
    assert (record.state, record.reason) == ("dropped", "by-operator")
    trainer = await ready(build)
    status = await build.client.status(build.run)
    assert (status.roles["executor"].acked_step, status.roles["executor"].live_step) == (1, 1)
    assert (await trainer.train()).step == 2
    planner = await ready(build, "planner")
    for _ in range(2):
        await planner.train()
    assert (await build.client.run(build.run)).state == "finished"


async def test_a_trainer_hears_that_nothing_more_comes(filled: Builder) -> None:
    trainer = await ready(filled)
    await filled.client.fail(filled.run, "by-operator")
    answer = await trainer.lease()
    assert (answer.delivery, answer.finished) == (None, True)


async def test_a_role_that_does_not_train_has_no_stream(build: Builder) -> None:
    await build.declare(trained_roles=("planner",))
    with pytest.raises(NotFound, match="no executor trains"):
        await build.trainer("executor").resume()
    with pytest.raises(NotFound, match="no run"):
        await Trainer(build.client, "none", "planner", "p").resume()


async def test_a_version_is_confirmed_once_acked_and_keeps_its_weights(filled: Builder) -> None:
    trainer = await ready(filled)
    with pytest.raises(Conflict, match="not acked"):
        await trainer.confirm(1)
    await trainer.ack(await trainer.delivery())
    for _ in range(2):
        await trainer.confirm(1, weights="a")
    with pytest.raises(BodyConflict, match="checksum"):
        await trainer.confirm(1, weights="b")
