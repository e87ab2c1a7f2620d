"""Events: an outbox. A row is written in the transaction of what happened, and numbered once it is committed.

An identity alone is no cursor: a transaction that took a low one may commit after a reader has gone past it. So
`position` is given to rows that are committed, by one numberer at a time; what commits later gets a higher one.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.schemas.events import Event
from sync_service.store.recordset import recordset
from sync_service.store.statement import Statement
from sync_service.store.views import view

_NUMBER_KEY = 0x7A_4D_EB

_INSERT = Statement("""
INSERT INTO events (run, kind, body)
SELECT run, kind, body FROM json_to_recordset(CAST(:rows AS json)) AS e (run text, kind text, body jsonb)
""")


async def insert(connection: AsyncConnection, rows: Iterable[dict[str, Any]]) -> None:
    """Write run, kind and body of each row, in order, all in one statement."""
    await _INSERT.count(connection, {"rows": recordset(rows)})


_UNNUMBERED = text("SELECT EXISTS (SELECT FROM events WHERE position IS NULL)")


async def unnumbered(connection: AsyncConnection) -> bool:
    """Whether a committed event has no position yet."""
    return (await connection.execute(_UNNUMBERED)).scalar_one()


_LOCK = text("SELECT pg_advisory_xact_lock(:key)")
_NUMBER = text("""
UPDATE events e SET position = n.position
FROM (
    SELECT id, nextval('event_positions') AS position
    FROM (SELECT id FROM events WHERE position IS NULL ORDER BY id LIMIT :limit) AS committed
) AS n
WHERE e.id = n.id
RETURNING e.kind, extract(epoch FROM clock_timestamp() - e.at)::float8 AS waited_s
""")


async def number(connection: AsyncConnection, limit: int) -> list[Row]:
    """Give the next positions to committed events, alone until this transaction ends: kind and waited_s of each.

    The statement after the lock sees all that the last numberer committed. The sequence never goes back, even where
    the events with the highest positions are purged.
    """
    await connection.execute(_LOCK, {"key": _NUMBER_KEY})
    return list(await connection.execute(_NUMBER, {"limit": limit}))


_COLUMNS = "position, run, kind, at, body"
_AFTER = text(f"""
SELECT {_COLUMNS} FROM events WHERE position > :after ORDER BY position LIMIT :limit
""")  # noqa: S608 - no value from outside
_AFTER_OF_RUN = text(f"""
SELECT {_COLUMNS} FROM events WHERE run = :run AND position > :after ORDER BY position LIMIT :limit
""")  # noqa: S608 - no value from outside


async def after(connection: AsyncConnection, after: int, run: str | None, limit: int) -> list[Event]:
    """Numbered events above a position, of one run if it is given, in order."""
    statement = _AFTER if run is None else _AFTER_OF_RUN
    rows = await connection.execute(statement, {"after": after, "run": run, "limit": limit})
    return [view(Event, row) for row in rows]
