"""Keys come and go on the command line, by who has the database: the audit names no key that did it."""

from collections.abc import Iterable

from sqlalchemy.ext.asyncio import AsyncConnection

from shared.http.keys import Key
from sync_service import store
from sync_service.operations import audit


async def keep(connection: AsyncConnection, keys: Iterable[Key]) -> None:
    """Keep these; one that is here stays as it is."""
    for key in await store.keys.insert(connection, keys):
        await audit.record(connection, None, "key-add", key.key, key.run, role=key.role)


async def revoke(connection: AsyncConnection, key: str) -> None:
    """Revoke a key for good; NotFound where there is none of that id. A second time changes nothing."""
    revoked = await store.keys.revoke(connection, key)
    if revoked.was_live:
        await audit.record(connection, None, "key-revoke", key, revoked.run)
