"""The spool: reports that the sync service has not answered for yet, on disk, in the order in which they came.

It is a table in the file of the trajectory store, so a trajectory and its report are one transaction. A report is
removed once the service has acknowledged it. One that the service refuses for good is kept apart, with the reason: it
is not sent again, and holds nobody up.
"""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from shared.errors import Overloaded
from shared.policy.group_commit import GroupCommit

MOST_WAITING = 100_000
"""Reports, of about a KiB each."""
MOST_REFUSED = 1000
"""The last ones; each was also logged."""

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS spool (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, body TEXT)",
    "CREATE TABLE IF NOT EXISTS refused (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, body TEXT, problem TEXT)",
)
KEEP = "INSERT OR IGNORE INTO spool (id, body) VALUES (?, ?)"
REMOVE = "DELETE FROM spool WHERE id IN (SELECT value FROM json_each(?))"
REFUSE = "INSERT INTO refused (id, body, problem) SELECT id, body, ? FROM spool WHERE id = ?"
FORGET = "DELETE FROM refused WHERE seq <= (SELECT max(seq) FROM refused) - ?"

Operation = Callable[[sqlite3.Connection], Any]


class Spool:
    """What waits, by id; `writer` owns the file, and everything is durable once it is awaited."""

    def __init__(self, writer: GroupCommit) -> None:
        self._writer = writer
        for statement in SCHEMA:
            writer.submit(lambda connection, statement=statement: connection.execute(statement).rowcount)

    async def waiting(self) -> list[tuple[str, str]]:
        """Every report that waits, as id and body, the oldest first."""
        query = "SELECT id, body FROM spool ORDER BY seq"
        return await self._do(lambda connection: connection.execute(query).fetchall())

    def keeping(self, id: str, body: str) -> Operation:
        """What keeps a report, within a transaction of the same file; Overloaded where the spool is full."""

        def keep(connection: sqlite3.Connection) -> None:
            (count,) = connection.execute("SELECT count(*) FROM spool").fetchone()
            if count >= MOST_WAITING:
                raise Overloaded(
                    f"{count} reports wait for the sync service, as many as the spool holds: the service has not "
                    "answered for long"
                )
            connection.execute(KEEP, (id, body))

        return keep

    async def keep(self, id: str, body: str) -> None:
        """Keep a report by itself."""
        await self._do(self.keeping(id, body))

    async def acknowledged(self, ids: Iterable[str]) -> None:
        """The service has these."""
        listed = json.dumps(list(ids))
        await self._do(lambda connection: connection.execute(REMOVE, (listed,)).rowcount)

    async def refused(self, id: str, problem: dict[str, Any]) -> None:
        """The service will never take this one."""

        def refuse(connection: sqlite3.Connection) -> None:
            connection.execute(REFUSE, (json.dumps(problem), id))
            connection.execute(REMOVE, (json.dumps([id]),))
            connection.execute(FORGET, (MOST_REFUSED,))

        await self._do(refuse)

    async def refusals(self) -> list[tuple[str, dict[str, Any]]]:
        """The last refused ones, as id and problem."""
        query = "SELECT id, problem FROM refused ORDER BY seq"
        rows = await self._do(lambda connection: connection.execute(query).fetchall())
        return [(id, json.loads(problem)) for id, problem in rows]

    async def _do(self, operation: Operation) -> Any:
        return await asyncio.wrap_future(self._writer.submit(operation))
