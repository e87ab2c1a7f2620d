"""The last acked steps of a run, and what is leased now: how fast it goes, and how well."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.schemas.base import Role


@dataclass(frozen=True, slots=True)
class Acked:
    """An acked delivery. `ready_at` and `leased_at` are of its last attempt; a step that was skipped by hand has none.

    An operator's skip has empty statistics.
    """

    role: Role
    step: int
    ready_at: datetime | None
    leased_at: datetime | None
    acked_at: datetime
    statistics: Mapping[str, float]
    histograms: Mapping[str, Mapping[str, int]]


_ACKED = text("""
SELECT d.role, d.step, d.ready_at, d.leased_at, d.acked_at,
    coalesce(d.statistics, '{}') AS statistics, coalesce(d.histograms, '{}') AS histograms
FROM streams s CROSS JOIN LATERAL (
    SELECT * FROM deliveries d WHERE d.run = s.run AND d.role = s.role AND d.step <= s.acked_step AND d.state = 'acked'
    ORDER BY d.step DESC LIMIT :limit
) AS d
WHERE s.run = :run ORDER BY d.step
""")


async def acked(connection: AsyncConnection, run: str, limit: int) -> list[Acked]:
    """The last `limit` acked steps of each role, oldest first."""
    rows = await connection.execute(_ACKED, {"run": run, "limit": limit})
    return [Acked(*row) for row in rows]


_LEASED = text("SELECT role, leased_at FROM deliveries WHERE run = :run AND state <> 'acked' AND state = 'leased'")


async def leased(connection: AsyncConnection, run: str) -> dict[str, datetime]:
    """Since when each role has had its delivery, of those that have one."""
    return {row.role: row.leased_at for row in await connection.execute(_LEASED, {"run": run})}
