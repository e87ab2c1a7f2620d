"""The ring of the keys that Postgres holds: in memory, so that a check costs microseconds, and often read again."""

import asyncio

import structlog
from sqlalchemy.exc import SQLAlchemyError

from shared.errors import TandemError, Unavailable
from shared.http.keys import Key, KeyRing
from sync_service import store
from sync_service.database import Database

log = structlog.get_logger()

REFRESH_S = 2.0
"""A key that is added works within this time, and one that is revoked is refused."""


class DatabaseRing:
    """The live keys as of at most REFRESH_S ago; while the database is away, as they last were."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ring: KeyRing | None = None

    def find(self, text: str) -> Key | None:
        """The live key that `text` is; Unavailable while the keys were never read."""
        return self._read().find(text)

    def named(self, id: str) -> Key | None:
        """The live key of this id, which nobody has shown; likewise."""
        return self._read().named(id)

    def _read(self) -> KeyRing:
        if self._ring is None:
            raise Unavailable("the keys are not read yet")
        return self._ring

    async def refresh(self) -> None:
        """Read the keys, in one statement; where the database is away, say so."""
        try:
            keys = await self._database.read(store.keys.live)
        except (SQLAlchemyError, TandemError) as error:
            log.warning("the keys are not read", error=repr(error))
            return
        if self._ring is None and not keys:
            log.warning("there is no key yet, so every call is refused: python -m sync_service keys add")
        self._ring = KeyRing(keys)

    async def run(self) -> None:
        """Consumes nothing; waits REFRESH_S; produces the ring."""
        while True:
            await asyncio.sleep(REFRESH_S)
            await self.refresh()
