"""Stalls and lost workers that go on, as events have told them."""

from datetime import datetime

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from sync_service.store.recordset import recordset

_RUNS = text("""
SELECT run FROM runs WHERE state IN ('declared', 'running', 'paused', 'draining') UNION SELECT run FROM stalls
""")


async def runs(connection: AsyncConnection) -> list[str]:
    """Runs that something can be stalled in, or was told to be."""
    return sorted((await connection.execute(_RUNS)).scalars())


_TOLD = text("SELECT code, who, step FROM stalls WHERE run = :run")


async def told(connection: AsyncConnection, run: str) -> list[Row]:
    """Those that go on: code, who, step (0: of none)."""
    return list(await connection.execute(_TOLD, {"run": run}))


_INSERT = text("INSERT INTO stalls (run, code, who, step, since) VALUES (:run, :code, :who, :step, :since)")


async def insert(connection: AsyncConnection, run: str, began: dict[tuple[str, str, int], datetime]) -> None:
    """Note those that began."""
    rows = [{"run": run, "code": c, "who": w, "step": s, "since": since} for (c, w, s), since in began.items()]
    await connection.execute(_INSERT, rows)


_DELETE = text("""
DELETE FROM stalls s USING json_to_recordset(CAST(:rows AS json)) AS e (code text, who text, step int)
WHERE s.run = :run AND s.code = e.code AND s.who = e.who AND s.step = e.step
""")


async def delete(connection: AsyncConnection, run: str, ended: set[tuple[str, str, int]]) -> None:
    """Forget those that ended."""
    rows = [{"code": code, "who": who, "step": step} for code, who, step in sorted(ended)]
    await connection.execute(_DELETE, {"run": run, "rows": recordset(rows)})
