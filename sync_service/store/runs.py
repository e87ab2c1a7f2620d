"""Runs: what they are, and which state they are in."""

from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import NotFound
from shared.schemas.run import RunSpec, RunView

_COLUMNS = "run, spec::text AS spec, state, reason"


@dataclass(frozen=True, slots=True)
class Run:
    """One run; `spec` never changes."""

    name: str
    spec: RunSpec
    state: str
    reason: str | None

    @classmethod
    def of(cls, row: Row) -> "Run":
        """From a row's run, spec (as text), state and reason."""
        return cls(row.run, parse_spec(row.spec), row.state, row.reason)

    def view(self) -> RunView:
        """As the wire shows it."""
        return RunView.model_validate(
            {"run": self.name, "spec": self.spec, "state": self.state, "reason": self.reason},
        )


@lru_cache(maxsize=256)
def parse_spec(spec: str) -> RunSpec:
    """The spec that this JSON text is: parsed once, as it is read with nearly every request."""
    return RunSpec.model_validate_json(spec)


_INSERT = text("""
INSERT INTO runs (run, spec, state) VALUES (:run, CAST(:spec AS jsonb), 'declared')
ON CONFLICT (run) DO NOTHING
""")
_INSERT_TRAFFIC = text("INSERT INTO traffic (run, bytes_received) VALUES (:run, 0) ON CONFLICT (run) DO NOTHING")


async def insert(connection: AsyncConnection, run: str, spec: RunSpec) -> bool:
    """Whether the run is new."""
    result = await connection.execute(_INSERT, {"run": run, "spec": spec.model_dump_json()})
    await connection.execute(_INSERT_TRAFFIC, {"run": run})
    return result.rowcount == 1


_SELECT = {
    lock: text(f"SELECT {_COLUMNS} FROM runs WHERE run = :run {clause}")  # noqa: S608 - no value from outside
    for lock, clause in {"none": "", "share": "FOR SHARE", "update": "FOR NO KEY UPDATE"}.items()
}


async def find(connection: AsyncConnection, run: str, lock: str = "none") -> Run:
    """The run, unlocked or locked (`share`: its state stands still; `update`: it is ours to change)."""
    row = (await connection.execute(_SELECT[lock], {"run": run})).one_or_none()
    if row is None:
        raise NotFound(f"there is no run {run}")
    return Run.of(row)


_KEEP_MANY = text(f"""
SELECT {_COLUMNS} FROM runs WHERE run = ANY(:runs) ORDER BY run FOR KEY SHARE
""")  # noqa: S608 - no value from outside


async def keep_many(connection: AsyncConnection, runs: list[str]) -> dict[str, Run]:
    """Those of `runs` that exist, by name; a purge deletes none of them before this transaction ends."""
    rows = await connection.execute(_KEEP_MANY, {"runs": runs})
    return {row.run: Run.of(row) for row in rows}


_PAGE = text(f"""
SELECT {_COLUMNS} FROM runs
WHERE run > :after AND (CAST(:only AS text) IS NULL OR run = :only) ORDER BY run LIMIT :limit
""")  # noqa: S608 - likewise


async def page(connection: AsyncConnection, only: str | None, after: str, limit: int) -> list[Run]:
    """Runs by name, above `after`; of one alone, where `only` names it."""
    values = {"only": only, "after": after, "limit": limit}
    return [Run.of(row) for row in await connection.execute(_PAGE, values)]


_SET_STATE = text("""
UPDATE runs SET state = :state, reason = coalesce(:reason, reason),
    paused_at = CASE WHEN :state = 'paused' THEN now() END
WHERE run = :run
""")


async def set_state(connection: AsyncConnection, run: str, state: str, reason: str | None = None) -> None:
    """Write the state of a run that is locked."""
    await connection.execute(_SET_STATE, {"run": run, "state": state, "reason": reason})


_SHIFT_GROUPS = text("""
UPDATE groups g SET
    deadline = g.deadline + (now() - greatest(r.paused_at, g.opened_at)),
    score_deadline = g.score_deadline + (now() - greatest(r.paused_at, g.closed_at))
FROM runs r WHERE r.run = :run AND g.run = r.run AND (g.state = 'open' OR g.scoring = 'pending')
""")
_SHIFT_ORPHANS = text("""
UPDATE trajectories t SET orphan_at = t.orphan_at + (now() - greatest(r.paused_at, t.received_at))
FROM runs r WHERE r.run = :run AND t.run = r.run AND t.group_id IS NULL
""")


async def shift_deadlines(connection: AsyncConnection, run: str) -> None:
    """Give back the time of the pause that ends now: deadlines stood still."""
    await connection.execute(_SHIFT_GROUPS, {"run": run})
    await connection.execute(_SHIFT_ORPHANS, {"run": run})


_ADD_TRAFFIC = text("UPDATE traffic SET bytes_received = bytes_received + :bytes WHERE run = :run")


async def add_traffic(connection: AsyncConnection, counted: dict[str, int]) -> None:
    """Add what was counted in memory."""
    if counted:
        rows = [{"run": run, "bytes": count} for run, count in sorted(counted.items())]
        await connection.execute(_ADD_TRAFFIC, rows)
