"""Workers: what each last said of itself."""

from sqlalchemy import text
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


_PAGE = text("""
SELECT worker, role, url, device, version_epoch, version_step, version_updates, doing, draining, seen_at
FROM workers WHERE run = :run AND worker > :after ORDER BY worker LIMIT :limit
""")


async def page(connection: AsyncConnection, run: str, after: str, limit: int) -> list[WorkerRow]:
    """The run's workers by name, above `after`."""
    rows = await connection.execute(_PAGE, {"run": run, "after": after, "limit": limit})
    return [view(WorkerRow, row) for row in rows]
