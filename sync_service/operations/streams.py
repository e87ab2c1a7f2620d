"""A role's stream: leased step after step under one epoch, renewed, acked, released.

An epoch has one worker, and only a resume raises it. Whoever comes with another epoch, or after its lease is over, is
answered `lease-lost`, and resumes.
"""

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import BodyConflict, InvalidInput, InvalidTransition, LeaseLost
from shared.schemas.stream import Ack, DeliveryView, LeaseAnswer, LeaseRequest, ReleaseRequest, Renewed, StreamClaim
from shared.schemas.views import DeliveryRow
from sync_service import store
from sync_service.operations import audit, events, fates
from sync_service.operations.digest import digest
from sync_service.operations.runs import finish_if_done
from sync_service.store.streams import Stream

EXPIRED = "lease-expired"


def require_epoch(stream: Stream, epoch: int) -> None:
    """LeaseLost where `epoch` is not the stream's."""
    if epoch != stream.epoch:
        raise LeaseLost(f"the {stream.role} stream is at epoch {stream.epoch}, not {epoch}", epoch=stream.epoch)


def _require_holder(stream: Stream, claim: StreamClaim | LeaseRequest) -> None:
    _require_live(stream, claim.epoch)
    _require_worker(stream, claim.worker)


def _require_worker(stream: Stream, worker: str) -> None:
    if stream.worker != worker:
        raise LeaseLost(f"the {stream.role} stream is held by another worker", epoch=stream.epoch)


def _require_live(stream: Stream, epoch: int) -> None:
    require_epoch(stream, epoch)
    if not stream.live:
        raise LeaseLost(f"the lease of epoch {epoch} on the {stream.role} stream is over", epoch=stream.epoch)


async def renew(connection: AsyncConnection, name: str, role: str, claim: StreamClaim) -> Renewed:
    """The lease lives its time again."""
    stream = await store.streams.lock(connection, name, role)
    _require_holder(stream, claim)
    ttl_s = stream.run.spec.lease_ttl_s
    await store.streams.renew(connection, name, role, ttl_s)
    return Renewed(ttl_s=ttl_s)


async def lease(
    connection: AsyncConnection, name: str, role: str, request: LeaseRequest, *, prolong: bool = True
) -> LeaseAnswer | None:
    """The next delivery, or that there will be none, or None: wait. A delivery leased before is answered again.

    `prolong`: this is a sign of life of the trainer, and not a look on behalf of one that may be gone.
    """
    stream = await store.streams.lock(connection, name, role)
    _require_holder(stream, request)
    ttl_s = stream.run.spec.lease_ttl_s
    if stream.run.state in ("finished", "failed", "purging"):
        return LeaseAnswer(finished=True, ttl_s=ttl_s)
    delivery = await store.deliveries.next_unacked(connection, name, role)
    if delivery is not None and delivery.state in ("ready", "leased") and _is_next(stream, delivery):
        await store.streams.grant(connection, stream, delivery.id)
        if delivery.state == "ready":
            await events.emit(connection, [events.about(delivery, "delivery-leased", epoch=stream.epoch)])
        return LeaseAnswer(delivery=await _view(connection, stream, delivery), ttl_s=ttl_s)
    if prolong:
        await store.streams.renew(connection, name, role, ttl_s)
    nothing_comes = delivery is None and stream.run.state == "draining"
    return LeaseAnswer(finished=True, ttl_s=ttl_s) if nothing_comes else None


def _is_next(stream: Stream, delivery: Row) -> bool:
    """No step is leased before the one below it, even where that one has no group opened yet; a drain opens none."""
    return delivery.step == stream.acked_step + 1 or stream.run.state == "draining"


async def _view(connection: AsyncConnection, stream: Stream, delivery: Row) -> DeliveryView:
    run = stream.run
    pooled = delivery.role == "executor" and run.spec.cutter == "arrival"
    groups = await store.contents.groups(connection, run.name, delivery.role, delivery.step, pooled=pooled)
    return DeliveryView(
        id=delivery.id,
        run=run.name,
        role=delivery.role,
        step=delivery.step,
        epoch=stream.epoch,
        attempt=delivery.attempts + 1,
        groups=groups,
    )


async def ack(connection: AsyncConnection, name: str, role: str, body: Ack) -> None:
    """The leased step is done. The same ack again, under its epoch, is answered as before."""
    stream = await store.streams.lock(connection, name, role, with_run=True)
    require_epoch(stream, body.epoch)
    delivery = await store.deliveries.at(connection, name, role, body.step)
    if delivery is None:
        raise InvalidInput(f"step: the {role} has no delivery of step {body.step}")
    if delivery.state == "acked" and delivery.epoch == body.epoch:
        if bytes(delivery.digest) != digest(body):
            raise BodyConflict(f"step {body.step} is acked with another body")
        return
    _require_live(stream, body.epoch)
    if delivery.state != "leased":
        raise InvalidTransition(f"the delivery of step {body.step} is {delivery.state}", state=delivery.state)
    await fates.record(connection, delivery, body)
    await store.streams.advance(connection, name, role)
    if stream.run.state == "draining":
        await finish_if_done(connection, name)


async def release(connection: AsyncConnection, name: str, role: str, body: ReleaseRequest) -> None:
    """Give the stream back; with an error, the attempt counts. A second release finds nothing to do."""
    stream = await store.streams.lock(connection, name, role)
    require_epoch(stream, body.epoch)
    if stream.worker is None:
        return
    _require_worker(stream, body.worker)
    await vacate(connection, stream, error=body.error if stream.live else EXPIRED)


async def vacate(connection: AsyncConnection, stream: Stream, *, error: str | None) -> None:
    """Nobody holds the stream: what was leased is ready again, or dead where this was the last attempt."""
    run, role = stream.run, stream.role
    left = await store.deliveries.unlease(connection, run.name, role, error=error, max_attempts=run.spec.max_attempts)
    await store.streams.leave(connection, run.name, role)
    kind = "stream-expired" if error == EXPIRED else "stream-released"
    notes = [events.note(run.name, kind, role=role, epoch=stream.epoch, worker=stream.worker, error=error)]
    for row in left:
        kind = "delivery-dead" if row.state == "dead" else "delivery-ready"
        place = {"delivery": row.id, "role": role, "step": row.step}
        notes.append(events.note(run.name, kind, **place, attempts=row.attempts, error=error))
    await events.emit(connection, notes)


async def requeue(connection: AsyncConnection, id: str, by: str | None) -> DeliveryRow:
    """An operator gives a dead delivery all its attempts again."""
    delivery = await _lock_delivery(connection, id)
    if delivery.state != "ready":
        _require_dead(delivery)
        await store.deliveries.requeue(connection, id)
        await events.emit(connection, [events.about(delivery, "delivery-requeued")])
        await audit.record(connection, by, "delivery-requeue", id, delivery.run)
    return await store.deliveries.find_view(connection, id)


async def skip(connection: AsyncConnection, id: str, by: str | None) -> DeliveryRow:
    """An operator gives a dead delivery up: its rows are dropped, and the stream goes on after it."""
    delivery = await _lock_delivery(connection, id)
    if not (delivery.state == "acked" and delivery.by_operator):
        _require_dead(delivery)
        await fates.skip(connection, delivery)
        await store.streams.advance(connection, delivery.run, delivery.role)
        await finish_if_done(connection, delivery.run)
        await audit.record(connection, by, "delivery-skip", id, delivery.run)
    return await store.deliveries.find_view(connection, id)


def _require_dead(delivery: Row) -> None:
    if delivery.state != "dead":
        raise InvalidTransition(f"delivery {delivery.id} is {delivery.state}, not dead", state=delivery.state)


async def _lock_delivery(connection: AsyncConnection, id: str) -> Row:
    """The delivery, with its run and its stream locked: only who holds these changes it."""
    found = await store.deliveries.find(connection, id)
    await store.streams.lock(connection, found.run, found.role, with_run=True)
    return await store.deliveries.find(connection, id)
