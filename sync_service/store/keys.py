"""Keys: their ids, roles, runs and hashes. The secret is never here."""

from collections.abc import Iterable

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import NotFound
from shared.http.keys import Key
from shared.schemas.base import KeyRole, Wire
from sync_service.store.views import view

_LIVE = text("SELECT key, role, run, hash FROM keys WHERE revoked_at IS NULL")


async def live(connection: AsyncConnection) -> list[Key]:
    """Every key that is not revoked."""
    rows = await connection.execute(_LIVE)
    return [Key(row.key, row.role, row.run, bytes(row.hash)) for row in rows]


_INSERT = text("""
INSERT INTO keys (key, role, run, hash) VALUES (:key, :role, :run, :hash) ON CONFLICT (key) DO NOTHING
""")


async def insert(connection: AsyncConnection, keys: Iterable[Key]) -> list[Key]:
    """Keep these; one that is here stays as it is, and one that was revoked stays revoked. Which were new."""
    new = []
    for key in keys:
        row = {"key": key.key, "role": key.role, "run": key.run, "hash": key.hash}
        if (await connection.execute(_INSERT, row)).rowcount:
            new.append(key)
    return new


class KeyRow(Wire):
    """A key in the list. `revoked_at` None: it is live."""

    key: str
    role: KeyRole
    run: str | None
    created_at: str
    revoked_at: str | None


_LIST = text("SELECT key, role, run, created_at, revoked_at FROM keys ORDER BY created_at, key")


async def everything(connection: AsyncConnection) -> list[KeyRow]:
    """Every key, the oldest first."""
    return [view(KeyRow, row) for row in await connection.execute(_LIST)]


_REVOKE = text("""
UPDATE keys k SET revoked_at = coalesce(k.revoked_at, now()) FROM keys before
WHERE k.key = :key AND before.key = k.key RETURNING k.run, before.revoked_at IS NULL AS was_live
""")


async def revoke(connection: AsyncConnection, key: str) -> Row:
    """Revoke a key for good; NotFound where there is none of that id. Its run, and whether it was live until now."""
    row = (await connection.execute(_REVOKE, {"key": key})).one_or_none()
    if row is None:
        raise NotFound(f"there is no key {key}")
    return row
