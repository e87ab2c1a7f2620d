"""Resume: a trainer takes its stream from the step that its checkpoint holds.

Afterwards the tables say what the surviving weights contain, and nothing else: everything up to that step is acked,
everything after it is ready again with its rows back to scored, and versions after it are superseded.
"""

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import BodyConflict, CheckpointAhead, InvalidInput, InvalidTransition, StreamHeld
from shared.schemas.stream import Ack, Resumed, ResumeRequest
from sync_service import store
from sync_service.operations import events, fates, runs
from sync_service.operations.digest import digest
from sync_service.operations.streams import EXPIRED, vacate
from sync_service.store.streams import Stream


async def resume(connection: AsyncConnection, name: str, role: str, request: ResumeRequest) -> Resumed:
    """Take the stream under the next epoch; StreamHeld while another worker's lease is live."""
    stream = await store.streams.lock(connection, name, role, with_run=True)
    run = stream.run
    if stream.live and stream.worker != request.worker:
        raise StreamHeld(f"{stream.worker} holds the {role} stream", worker=stream.worker)
    await _check_weights(connection, name, role, request)
    if stream.worker is not None:
        # A worker that takes its own live stream back has failed no attempt.
        await vacate(connection, stream, error=None if stream.live else EXPIRED)
    pending = await _pending(connection, stream, request)
    epoch = await store.streams.take(connection, name, role, request.worker, run.spec.lease_ttl_s)
    reopened = await store.deliveries.reopen(connection, name, role, request.step)
    if reopened and run.state == "finished":
        await runs.reopen(connection, run)
    await fates.forget(connection, name, role, reopened)
    await store.policies.supersede(connection, name, role, request.step)
    if pending is not None:
        await _record_pending(connection, *pending)
    await store.policies.register(
        connection,
        run=name,
        role=role,
        epoch=epoch,
        step=request.step,
        updates=request.updates,
        checksum=request.checksum,
        worker=request.worker,
        confirmed=False,
    )
    await store.streams.advance(connection, name, role)
    told = {"epoch": epoch, "worker": request.worker, "reopened": len(reopened)}
    await events.emit(connection, [events.note(name, "stream-resumed", role=role, step=request.step, **told)])
    await runs.finish_if_done(connection, name)
    return Resumed(epoch=epoch)


async def _check_weights(connection: AsyncConnection, name: str, role: str, request: ResumeRequest) -> None:
    """The samplers have loaded this step's weights: the checkpoint must hold those, not others of the same step."""
    known = await store.policies.surviving(connection, name, role, request.step)
    if known is not None and known.checksum != request.checksum:
        raise BodyConflict(f"version {known.epoch}.{request.step} of the {role} is registered with another checksum")


async def _pending(connection: AsyncConnection, stream: Stream, request: ResumeRequest) -> tuple[Row, Ack] | None:
    """The delivery whose ack the checkpoint holds and the tables do not, with that ack."""
    run, ack = stream.run, request.pending_ack
    if run.state == "purging":
        raise InvalidTransition(f"run {run.name} is being purged", state=run.state)
    if ack is not None and ack.step != request.step:
        raise InvalidInput(f"pending_ack is of step {ack.step}, the checkpoint of step {request.step}")
    if run.state == "failed" and request.step != stream.acked_step:
        raise InvalidTransition(f"run {run.name} is failed; only step {stream.acked_step} can be resumed")
    delivery = await store.deliveries.at(connection, run.name, stream.role, request.step)
    if request.step <= stream.acked_step:
        if ack is None or delivery is None or bytes(delivery.digest) == digest(ack):
            return None
        return delivery, ack
    following = await store.deliveries.next_unacked(connection, run.name, stream.role)
    if delivery is None or following is None or following.step != request.step or delivery.epoch is None:
        raise CheckpointAhead(
            f"the {stream.role} has acked step {stream.acked_step} here, and step {request.step}, which the checkpoint "
            "holds, was never leased: the database is older than the checkpoint (docs/operations.md, Restore)"
        )
    if ack is None:
        raise CheckpointAhead(f"step {request.step} is not acked, and the request holds no pending_ack of it")
    return delivery, ack


async def _record_pending(connection: AsyncConnection, delivery: Row, ack: Ack) -> None:
    """Record the ack as the checkpoint has it; where another one is recorded, it is of weights that did not survive."""
    if delivery.state == "acked":
        await fates.forget(connection, delivery.run, delivery.role, [delivery.step])
    await fates.record(connection, delivery, ack)
