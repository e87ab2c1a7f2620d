"""Acks: what a step made of its rows, with its statistics; taken back when the step is to be trained again."""

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import InvalidInput, InvalidTransition
from shared.schemas.stream import Ack
from sync_service import store
from sync_service.operations.digest import digest
from sync_service.operations.events import about, emit

BY_OPERATOR = "by-operator"


async def record(connection: AsyncConnection, delivery: Row, ack: Ack, *, by_operator: bool = False) -> None:
    """Write the ack of a delivery that is leased: InvalidInput where it does not fit the delivery."""
    if ack.outcome == "skipped" and (ack.reason is None or any(isinstance(f, int) for f in ack.fates.values())):
        raise InvalidInput("a skipped step has a reason, and trains nothing")
    owned = await store.contents.owned(connection, delivery.run, delivery.role, delivery.step)
    _compare(owned, set(ack.fates))
    rows = [
        {"id": id, "multiplicity": fate, "reason": None} if isinstance(fate, int) else {"id": id, "reason": fate}
        for id, fate in sorted(ack.fates.items())
    ]
    if delivery.role == "planner":
        await store.rollouts.record_fates(connection, delivery.run, delivery.step, rows)
    else:
        trained = {id for id, fate in ack.fates.items() if isinstance(fate, int)}
        moved = await store.trajectories.record_fates(connection, rows)
        if untrainable := sorted(trained - {id for id, state in moved.items() if state == "trained"}):
            raise InvalidTransition(f"trajectory {untrainable[0]} is not scored and cannot be trained")
    await store.deliveries.ack(connection, delivery.id, ack, digest(ack), by_operator=by_operator)
    kind = "delivery-skipped" if by_operator else "delivery-acked"
    told = {"epoch": ack.epoch, "outcome": ack.outcome, "reason": ack.reason, "updates": ack.updates}
    await emit(connection, [about(delivery, kind, **told)])


def _compare(owned: set[str], named: set[str]) -> None:
    """Each row of the delivery has its fate: none may vanish without a reason."""
    if missing := sorted(owned - named):
        raise InvalidInput(f"fates: {len(missing)} trajectories of the delivery are missing, the first {missing[0]}")
    if strangers := sorted(named - owned):
        raise InvalidInput(f"fates: {len(strangers)} are not of the delivery, the first {strangers[0]}")


async def forget(connection: AsyncConnection, run: str, role: str, steps: list[int]) -> None:
    """The rows of `steps` are to be trained again: back to scored."""
    if steps and role == "planner":
        await store.rollouts.forget_fates(connection, run, steps)
    elif steps:
        await store.trajectories.forget_fates(connection, run, steps)


async def skip(connection: AsyncConnection, delivery: Row) -> None:
    """An operator skips a dead delivery: every row of it is dropped, the weights are as before."""
    owned = await store.contents.owned(connection, delivery.run, delivery.role, delivery.step)
    before = await store.deliveries.updates_before(connection, delivery.run, delivery.role, delivery.step)
    ack = Ack(
        epoch=delivery.epoch or 0,
        step=delivery.step,
        outcome="skipped",
        reason=BY_OPERATOR,
        updates=before,
        fates=dict.fromkeys(sorted(owned), BY_OPERATOR),
    )
    await record(connection, delivery, ack, by_operator=True)
