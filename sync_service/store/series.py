"""Statistics of acked steps as curves: some steps, some names, and nothing else of what the acks hold."""

from collections.abc import Sequence

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

_VALUES = text("""
SELECT d.role, d.step, d.outcome, d.acked_at, ARRAY(
    SELECT CAST(d.statistics ->> named.name AS double precision)
    FROM unnest(CAST(:names AS text[])) WITH ORDINALITY AS named (name, place) ORDER BY named.place
) AS figures
FROM streams s CROSS JOIN unnest(CAST(:steps AS int[])) AS asked (step)
JOIN deliveries d ON d.run = s.run AND d.role = s.role AND d.step = asked.step
WHERE s.run = :run AND d.state = 'acked' ORDER BY d.step, d.role
""")


async def values(connection: AsyncConnection, run: str, steps: Sequence[int], names: Sequence[str]) -> list[Row]:
    """Of those of `steps` that a role has acked: role, step, outcome, acked_at, and `figures`, one (or None) a name."""
    return list(await connection.execute(_VALUES, {"run": run, "steps": list(steps), "names": list(names)}))


_HISTOGRAM = text("""
SELECT d.step, d.histograms -> :name AS bars
FROM unnest(CAST(:steps AS int[])) AS asked (step)
JOIN deliveries d ON d.run = :run AND d.role = :role AND d.step = asked.step
WHERE d.state = 'acked' AND jsonb_exists(d.histograms, :name) ORDER BY d.step
""")


async def histogram(connection: AsyncConnection, run: str, role: str, steps: Sequence[int], name: str) -> list[Row]:
    """One histogram of each of `steps` whose ack has it: step, bars (counts by label)."""
    found = {"run": run, "role": role, "steps": list(steps), "name": name}
    return list(await connection.execute(_HISTOGRAM, found))


_LAST = text("SELECT coalesce(max(acked_step), 0) FROM streams WHERE run = :run")


async def last_step(connection: AsyncConnection, run: str) -> int:
    """The highest step up to which a role has acked everything."""
    return (await connection.execute(_LAST, {"run": run})).scalar_one()
