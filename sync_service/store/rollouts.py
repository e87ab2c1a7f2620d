"""Rollouts: submitted once, final."""

from collections.abc import Collection
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import NotFound
from shared.schemas.views import RolloutView
from sync_service.store import views
from sync_service.store.recordset import recordset, uuids
from sync_service.store.statement import Statement

_FIND_MANY = Statement("""
SELECT id, run, group_id, state, digest FROM rollouts WHERE id = ANY(CAST(:ids AS uuid[]))
""")


async def find_many(connection: AsyncConnection, ids: Collection[str]) -> dict[str, Row]:
    """Those of `ids` that exist: id, run, group_id, state, digest."""
    rows = await _FIND_MANY.rows(connection, {"ids": uuids(ids)})
    return {row.id: row for row in rows}


_FIND_AROUND = Statement("""
SELECT id, group_id, slot, state, digest FROM rollouts WHERE id = ANY(CAST(:ids AS uuid[]))
UNION
SELECT id, group_id, slot, state, digest FROM rollouts
WHERE group_id = ANY(CAST(:groups AS uuid[])) AND state <> 'late'
""")


async def find_around(connection: AsyncConnection, ids: Collection[str], groups: Collection[str]) -> list[Row]:
    """Those of `ids` that exist, and those that hold a slot of `groups`: id, group_id, slot, state, digest."""
    return await _FIND_AROUND.rows(connection, {"ids": uuids(ids), "groups": uuids(groups)})


_RECORD = Statement("""
WITH came AS (
    SELECT * FROM json_to_recordset(CAST(:rows AS json)) AS c (
        id uuid, run text, group_id uuid, slot int, state text, reason text, planner_trajectory uuid,
        r_format smallint, r_correct double precision, r_protocol double precision, r_efficiency double precision,
        r_diversity double precision, executor_trajectories uuid[], tokens bigint,
        version_epoch int, version_step int, version_updates int, digest text, batch_step int)
), inserted AS (
    INSERT INTO rollouts (id, run, group_id, slot, state, reason, planner_trajectory, r_format, r_correct,
        r_protocol, r_efficiency, r_diversity, executor_trajectories, tokens,
        version_epoch, version_step, version_updates, digest)
    SELECT id, run, group_id, slot, state, reason, planner_trajectory, r_format, r_correct,
        r_protocol, r_efficiency, r_diversity, executor_trajectories, tokens,
        version_epoch, version_step, version_updates, decode(digest, 'hex') FROM came
), adopted AS (
    UPDATE trajectories t SET group_id = c.group_id, orphan_at = NULL,
        state = CASE WHEN c.state = 'late' AND t.state IN ('scored', 'unscored') THEN 'orphan' ELSE t.state END,
        reason = CASE WHEN c.state = 'late' AND t.state IN ('scored', 'unscored') THEN 'not-named' ELSE t.reason END
    FROM came c
    WHERE t.rollout_id = c.id AND t.run = c.run AND t.group_id IS NULL AND t.id <> ALL(c.executor_trajectories)
)
INSERT INTO trajectories AS t (id, run, rollout_id, group_id, named_by, batch_step, state)
SELECT named.id, c.run, c.id, c.group_id, c.state, c.batch_step, 'awaited'
FROM came c, unnest(c.executor_trajectories) AS named (id)
ORDER BY named.id
ON CONFLICT (id) DO UPDATE SET
    group_id = excluded.group_id, named_by = excluded.named_by, batch_step = excluded.batch_step, orphan_at = NULL,
    state = CASE WHEN excluded.named_by = 'late' AND t.state IN ('scored', 'unscored') THEN 'late' ELSE t.state END
WHERE t.rollout_id = excluded.rollout_id AND t.run = excluded.run AND t.named_by IS NULL
""")


async def record(connection: AsyncConnection, rows: list[dict[str, Any]]) -> bool:
    """Insert new rollouts, and tie to each the trajectories that it names; false where another took one in between.

    What came before its rollout, and is not named by it, now at least knows its group, whose end makes it an orphan;
    where the rollout is late, that end is past.
    """
    names = sum(len(row["executor_trajectories"]) for row in rows)
    return await _RECORD.count(connection, {"rows": recordset(rows)}) == names


_RECORD_FATES = Statement("""
UPDATE rollouts r SET
    multiplicity = CAST(fates.of -> CAST(r.planner_trajectory AS text) ->> 'multiplicity' AS int),
    fate_reason = fates.of -> CAST(r.planner_trajectory AS text) ->> 'reason'
FROM (SELECT CAST(:fates AS jsonb)) AS fates (of), groups g
WHERE g.run = :run AND g.step = :step AND r.group_id = g.id AND r.state = 'reported'
    AND jsonb_exists(fates.of, CAST(r.planner_trajectory AS text))
""")


async def record_fates(connection: AsyncConnection, run: str, step: int, fates: list[dict[str, Any]]) -> None:
    """Write what became of the planner trajectories of a step."""
    by_id = to_json({fate["id"]: fate for fate in fates}).decode()
    await _RECORD_FATES.count(connection, {"run": run, "step": step, "fates": by_id})


_FORGET_FATES = text("""
UPDATE rollouts r SET multiplicity = NULL, fate_reason = NULL
FROM groups g WHERE g.run = :run AND g.step = ANY(:steps) AND r.group_id = g.id
""")


async def forget_fates(connection: AsyncConnection, run: str, steps: list[int]) -> None:
    """Planner trajectories of `steps` are to be trained again."""
    await connection.execute(_FORGET_FATES, {"run": run, "steps": steps})


_COLUMNS = """
SELECT id, run, group_id AS "group", slot, state, reason, planner_trajectory, r_format, r_correct,
    r_protocol, r_efficiency, r_diversity, executor_trajectories, tokens, version_epoch, version_step, version_updates,
    received_at, multiplicity, fate_reason
FROM rollouts
"""
_VIEW = text(f"{_COLUMNS} WHERE id = CAST(:id AS uuid)")
_OF_GROUP = text(f"""{_COLUMNS}
WHERE group_id = CAST(:group AS uuid) AND (slot, CAST(id AS text)) > (:slot, :id)
ORDER BY slot, CAST(id AS text) LIMIT :limit
""")  # a group has at most some thousand, and an index leads to them


async def view(connection: AsyncConnection, id: str) -> RolloutView:
    """One rollout; NotFound where there is none."""
    row = (await connection.execute(_VIEW, {"id": id})).one_or_none()
    if row is None:
        raise NotFound(f"there is no rollout {id}")
    return views.view(RolloutView, row)


async def of_group(connection: AsyncConnection, group: str, after: tuple[int, str], limit: int) -> list[RolloutView]:
    """The group's rollouts in the order of slot and id, above `after`."""
    found = {"group": group, "slot": after[0], "id": after[1], "limit": limit}
    return [views.view(RolloutView, row) for row in await connection.execute(_OF_GROUP, found)]
