"""Versions: a role's samplers have loaded one. This is the confirmation that opens the next step."""

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import BodyConflict, Conflict
from shared.schemas.stream import PolicyPublish
from sync_service import store
from sync_service.operations import events
from sync_service.operations.streams import require_epoch


async def publish(
    connection: AsyncConnection, name: str, role: str, epoch: int, step: int, body: PolicyPublish
) -> None:
    """Confirm version (epoch, step); LeaseLost under a stale epoch, BodyConflict where other weights have that name."""
    stream = await store.streams.lock(connection, name, role)
    require_epoch(stream, epoch)
    if step > stream.acked_step:
        raise Conflict(f"step {step} of the {role} is not acked, only {stream.acked_step}")
    before = await store.policies.surviving(connection, name, role, step)
    version = {"epoch": epoch, "step": step, "updates": body.updates, "checksum": body.checksum}
    if not await store.policies.register(
        connection, run=name, role=role, worker=body.worker, confirmed=True, **version
    ):
        raise BodyConflict(f"version {epoch}.{step} of the {role} is registered with another checksum")
    await store.streams.advance(connection, name, role)
    if before is None or before.epoch != epoch:
        told = events.note(name, "version-confirmed", role=role, epoch=epoch, step=step, updates=body.updates)
        await events.emit(connection, [told])
