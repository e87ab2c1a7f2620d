"""Where a run stands, and in words who waits for whom."""

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.schemas.run import RoleStatus, RunStatus
from sync_service import store
from sync_service.operations.groups import open_through
from sync_service.operations.waits import waits

OPENING = ("declared", "running")
LASTING = ("declared", "running", "paused")
COUNTED = ("groups", "rollouts", "trajectories")


async def may_open(connection: AsyncConnection, name: str, step: int) -> bool | None:
    """Whether groups of `step` may be opened now; None: not yet, but it may come."""
    run = await store.runs.find(connection, name)
    if run.state not in LASTING:
        return False
    reached = step <= open_through(run, await store.streams.slowest_live_step(connection, name))
    return True if reached and run.state in OPENING else None


async def status(
    connection: AsyncConnection, name: str, stall_s: float, uncounted_bytes: int = 0, *, counted: bool = True
) -> RunStatus:
    """The run's state, counts, streams and waits; a wait of more than `stall_s` is a stall.

    The counts read every row of the run: who asks often wants them not `counted`.
    """
    run = await store.runs.find(connection, name)
    streams = await store.status.streams(connection, name)
    waiting = await waits(connection, run, streams, stall_s)
    return RunStatus.model_validate(
        {
            "run": name,
            "state": run.state,
            "reason": run.reason,
            "open_through": open_through(run, min(stream.live_step for stream in streams)),
            **{noun: await store.status.counts(connection, name, noun) for noun in (COUNTED if counted else ())},
            "roles": {stream.role: _role(stream) for stream in streams},
            "waiting_for": tuple(wait.text for wait in waiting),
            "waits": waiting,
            "bytes_received": await store.status.bytes_received(connection, name) + uncounted_bytes,
        }
    )


def _role(stream: Row) -> RoleStatus:
    return RoleStatus(
        epoch=stream.epoch,
        acked_step=stream.acked_step,
        live_step=stream.live_step,
        worker=stream.worker if stream.live else None,
        ready=stream.ready,
        waiting=stream.waiting,
        dead=stream.dead,
    )
