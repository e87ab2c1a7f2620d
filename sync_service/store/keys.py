"""Keys: their ids, roles, runs and hashes. The secret is never here."""

from collections.abc import Iterable

from sqlalchemy import text
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


async def insert(connection: AsyncConnection, keys: Iterable[Key]) -> None:
    """Keep these; one that is here stays as it is, and one that was revoked stays revoked."""
    rows = [{"key": key.key, "role": key.role, "run": key.run, "hash": key.hash} for key in keys]
    if rows:
        await connection.execute(_INSERT, rows)


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


_REVOKE = text("UPDATE keys SET revoked_at = coalesce(revoked_at, now()) WHERE key = :key")


async def revoke(connection: AsyncConnection, key: str) -> None:
    """Revoke a key for good; NotFound where there is none of that id. A second time changes nothing."""
    if (await connection.execute(_REVOKE, {"key": key})).rowcount == 0:
        raise NotFound(f"there is no key {key}")
