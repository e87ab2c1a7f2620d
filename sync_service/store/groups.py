"""Groups: K slots of one task, closed once, sealed once."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import NotFound
from shared.schemas.rollout import GroupOpen, GroupView
from shared.schemas.run import RunSpec
from sync_service.store.recordset import recordset
from sync_service.store.runs import parse_spec
from sync_service.store.views import view


@dataclass(slots=True)
class Group:
    """A group that this transaction has locked.

    `due` and `score_due`: that deadline is past, so it must close or be sealed. `touched`: its counts or its state are
    not those in the table.
    """

    id: str
    run: str
    step: int
    state: str
    scoring: str
    final: int
    reported: int
    due: bool
    score_due: bool
    run_state: str
    spec: RunSpec
    touched: bool = False

    def count(self, *, reported: bool) -> None:
        """One more slot is final."""
        self.final += 1
        self.reported += reported
        self.touched = True

    @property
    def takes_rollouts(self) -> bool:
        """Whether a rollout that comes now is in time."""
        return self.state == "open"

    @property
    def takes_scores(self) -> bool:
        """Whether a score that comes now is in time."""
        return self.scoring == "pending"


def _group(row: Row) -> Group:
    fields: dict[str, Any] = {**row._mapping, "spec": parse_spec(row.spec)}
    return Group(**fields)


_LOCK = """
SELECT g.id, g.run, g.step, g.state, g.scoring, g.final, g.reported,
    r.state <> 'paused' AND g.state = 'open' AND g.deadline <= now() AS due,
    coalesce(r.state <> 'paused' AND g.scoring = 'pending' AND g.score_deadline <= now(), false) AS score_due,
    r.state AS run_state, r.spec::text AS spec
FROM groups g JOIN runs r ON r.run = g.run
"""
_LOCK_IDS = text(f"{_LOCK} WHERE g.id = ANY(CAST(:ids AS uuid[])) ORDER BY g.id FOR NO KEY UPDATE OF g")
_OF_ROLLOUTS = """
WHERE g.id IN (SELECT group_id FROM rollouts WHERE id = ANY(CAST(:rollouts AS uuid[])))
ORDER BY g.id FOR NO KEY UPDATE OF g
"""
_LOCK_OF_ROLLOUTS = text(_LOCK + _OF_ROLLOUTS)
_LOCK_DUE = text(f"""{_LOCK}
WHERE r.state <> 'paused' AND (g.state = 'open' AND g.deadline <= now()
    OR g.state = 'complete' AND g.scoring = 'pending' AND g.score_deadline <= now())
ORDER BY g.id LIMIT :limit FOR NO KEY UPDATE OF g SKIP LOCKED
""")


async def lock(connection: AsyncConnection, ids: Collection[str]) -> dict[str, Group]:
    """Those of `ids` that exist, locked in the order of their ids."""
    rows = await connection.execute(_LOCK_IDS, {"ids": list(ids)})
    return {row.id: _group(row) for row in rows}


async def lock_of_rollouts(connection: AsyncConnection, rollouts: Collection[str]) -> dict[str, Group]:
    """The groups of the rollouts that are known, locked in the order of their ids."""
    rows = await connection.execute(_LOCK_OF_ROLLOUTS, {"rollouts": list(rollouts)})
    return {row.id: _group(row) for row in rows}


async def lock_due(connection: AsyncConnection, limit: int) -> list[Group]:
    """Groups that are past a deadline and that nobody else works on."""
    return [_group(row) for row in await connection.execute(_LOCK_DUE, {"limit": limit})]


_INSERT = text("""
INSERT INTO groups (id, run, step, index, task_id, deadline)
VALUES (CAST(:id AS uuid), :run, :step, :index, :task_id, now() + make_interval(secs => :deadline_s))
""")


async def insert(connection: AsyncConnection, id: str, body: GroupOpen, deadline_s: float) -> None:
    """Open a group."""
    await connection.execute(_INSERT, {"id": id, **body.model_dump(), "deadline_s": deadline_s})


_SETTLE = text("""
UPDATE groups g SET final = s.final, reported = s.reported, state = s.state, reason = s.reason,
    closed_at = CASE WHEN s.state <> 'open' THEN now() END,
    score_deadline = CASE WHEN s.state = 'complete' THEN now() + make_interval(secs => s.score_deadline_s) END
FROM json_to_recordset(CAST(:rows AS json)) AS s (
    id uuid, final int, reported int, state text, reason text, score_deadline_s double precision)
WHERE g.id = s.id AND g.state = 'open'
""")


async def settle(connection: AsyncConnection, groups: Iterable[Group], reasons: dict[str, str]) -> None:
    """Write the counts and states of locked groups that were open."""
    rows = [
        {
            "id": group.id,
            "final": group.final,
            "reported": group.reported,
            "state": group.state,
            "reason": reasons.get(group.id),
            "score_deadline_s": group.spec.score_deadline_s,
        }
        for group in groups
    ]
    await connection.execute(_SETTLE, {"rows": recordset(rows)})


_SEAL = text("""
UPDATE groups g SET scoring = 'sealed', sealed_at = now()
WHERE g.id = ANY(CAST(:ids AS uuid[])) AND g.scoring = 'pending' AND (
    g.id = ANY(CAST(:forced AS uuid[]))
    OR NOT EXISTS (
        SELECT FROM trajectories t WHERE t.group_id = g.id AND t.state = 'awaited' AND t.named_by = 'reported'))
RETURNING g.id
""")


async def seal(connection: AsyncConnection, ids: list[str], forced: list[str]) -> set[str]:
    """Seal closed groups: those of `forced`, and those that await no trajectory of a reported rollout."""
    rows = await connection.execute(_SEAL, {"ids": ids, "forced": forced})
    return {row.id for row in rows}


_VIEW = """
SELECT g.id AS "group", g.run, g.step, g.index, g.task_id, g.state, g.scoring, g.reason,
    ARRAY(SELECT slot FROM rollouts r WHERE r.group_id = g.id AND r.state <> 'late' ORDER BY slot) AS final_slots
FROM groups g
"""
_FIND = text(f"{_VIEW} WHERE g.id = CAST(:id AS uuid)")
_AT = text(f"{_VIEW} WHERE g.run = :run AND g.step = :step AND g.index = :index")
_PAGE = text(f"""{_VIEW}
WHERE g.run = :run AND (CAST(:state AS text) IS NULL OR g.state = :state) AND (g.step, g.index) > (:step, :index)
ORDER BY g.step, g.index LIMIT :limit
""")


async def find(connection: AsyncConnection, id: str) -> GroupView:
    """One group; NotFound where there is none."""
    row = (await connection.execute(_FIND, {"id": id})).one_or_none()
    if row is None:
        raise NotFound(f"there is no group {id}")
    return view(GroupView, row)


async def at(connection: AsyncConnection, run: str, step: int, index: int) -> GroupView | None:
    """The group that holds a place of a batch."""
    row = (await connection.execute(_AT, {"run": run, "step": step, "index": index})).one_or_none()
    return view(GroupView, row) if row is not None else None


async def page(
    connection: AsyncConnection, run: str, state: str | None, after: tuple[int, int], limit: int
) -> list[GroupView]:
    """The run's groups in the order of step and index, above `after`."""
    found = {"run": run, "state": state, "step": after[0], "index": after[1], "limit": limit}
    return [view(GroupView, row) for row in await connection.execute(_PAGE, found)]
