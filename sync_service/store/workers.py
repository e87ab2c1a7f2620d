"""Workers: what each last said of itself."""

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import Conflict
from shared.schemas.stream import Heartbeat
from shared.schemas.views import WorkerRow
from sync_service.store.views import view

_BEAT = text("""
INSERT INTO workers (run, worker, role, url, device, version_epoch, version_step, version_updates, doing, draining,
    seen_at)
VALUES (:run, :worker, :role, :url, :device, :version_epoch, :version_step, :version_updates, :doing, :draining, now())
ON CONFLICT (run, worker) DO UPDATE SET
    role = excluded.role, url = excluded.url, device = excluded.device, version_epoch = excluded.version_epoch,
    version_step = excluded.version_step, version_updates = excluded.version_updates, doing = excluded.doing,
    draining = excluded.draining, seen_at = excluded.seen_at
WHERE workers.role = excluded.role
""")


async def beat(connection: AsyncConnection, run: str, worker: str, body: Heartbeat) -> None:
    """Record a heartbeat; Conflict where the name is that of a worker of the other role."""
    fields = body.model_dump(exclude={"version"})
    version = body.version.model_dump() if body.version else {"epoch": None, "step": None, "updates": None}
    fields |= {f"version_{name}": value for name, value in version.items()}
    result = await connection.execute(_BEAT, {"run": run, "worker": worker, **fields})
    if result.rowcount == 0:
        raise Conflict(f"{worker} is a worker of the other role")


_LOST = "NOT draining AND seen_at < now() - make_interval(secs => :lost_s)"
_PAGE = text(f"""
SELECT worker, role, url, device, version_epoch, version_step, version_updates, doing, draining, seen_at,
    {_LOST} AS lost
FROM workers WHERE run = :run AND worker > :after ORDER BY worker LIMIT :limit
""")  # noqa: S608 - no value from outside


async def page(connection: AsyncConnection, run: str, after: str, limit: int, lost_s: float) -> list[WorkerRow]:
    """The run's workers by name, above `after`; lost are those that were not seen for `lost_s`."""
    rows = await connection.execute(_PAGE, {"run": run, "after": after, "limit": limit, "lost_s": lost_s})
    return [view(WorkerRow, row) for row in rows]


_FIND_LOST = text(f"SELECT worker, seen_at FROM workers WHERE run = :run AND {_LOST}")  # noqa: S608


async def lost(connection: AsyncConnection, run: str, lost_s: float) -> list[Row]:
    """Workers that were not seen for `lost_s`, and did not say that they drain: worker, seen_at."""
    return list(await connection.execute(_FIND_LOST, {"run": run, "lost_s": lost_s}))


_ADDRESSES = text("SELECT role, url FROM workers WHERE run = :run ORDER BY seen_at DESC")


async def addresses(connection: AsyncConnection, run: str) -> list[Row]:
    """Where each worker says that it listens, those first that were seen last: role, url."""
    return list(await connection.execute(_ADDRESSES, {"run": run}))
