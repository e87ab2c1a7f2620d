"""Policy versions: resumed from or loaded by a role's samplers, and superseded by a resume from an earlier step."""

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.schemas.views import PolicyRow
from sync_service.store.views import view

_REGISTER = text("""
INSERT INTO policies AS p (run, role, epoch, step, updates, checksum, worker, confirmed_at)
VALUES (:run, :role, :epoch, :step, :updates, :checksum, :worker, CASE WHEN :confirmed THEN now() END)
ON CONFLICT (run, role, epoch, step) DO UPDATE SET confirmed_at = coalesce(p.confirmed_at, excluded.confirmed_at)
WHERE p.checksum = excluded.checksum AND p.updates = excluded.updates
""")


async def register(
    connection: AsyncConnection,
    *,
    run: str,
    role: str,
    epoch: int,
    step: int,
    updates: int,
    checksum: str,
    worker: str,
    confirmed: bool,
) -> bool:
    """Record a version; false where other weights are registered under it."""
    found = {"run": run, "role": role, "epoch": epoch, "step": step, "updates": updates}
    found |= {"checksum": checksum, "worker": worker, "confirmed": confirmed}
    return (await connection.execute(_REGISTER, found)).rowcount == 1


_SURVIVING = text("""
SELECT epoch, checksum FROM policies
WHERE run = :run AND role = :role AND step = :step AND NOT superseded AND confirmed_at IS NOT NULL
ORDER BY epoch DESC LIMIT 1
""")


async def surviving(connection: AsyncConnection, run: str, role: str, step: int) -> Row | None:
    """The confirmed version of a step that counts now: epoch, checksum."""
    return (await connection.execute(_SURVIVING, {"run": run, "role": role, "step": step})).one_or_none()


_SUPERSEDE = text("UPDATE policies SET superseded = true WHERE run = :run AND role = :role AND step > :step")


async def supersede(connection: AsyncConnection, run: str, role: str, step: int) -> None:
    """Versions above `step` are no ancestors of what is trained from now on."""
    await connection.execute(_SUPERSEDE, {"run": run, "role": role, "step": step})


_PAGE = text("""
SELECT role, epoch, step, updates, checksum, worker, confirmed_at, superseded FROM policies
WHERE run = :run AND (epoch, step, role) > (:epoch, :step, :role) ORDER BY epoch, step, role LIMIT :limit
""")


async def page(connection: AsyncConnection, run: str, after: tuple[int, int, str], limit: int) -> list[PolicyRow]:
    """The run's versions in the order of epoch and step, above `after`."""
    found = {"run": run, "epoch": after[0], "step": after[1], "role": after[2], "limit": limit}
    rows = await connection.execute(_PAGE, found)
    return [view(PolicyRow, row) for row in rows]
