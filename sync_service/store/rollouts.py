"""Rollouts: submitted once, final."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import NotFound
from shared.schemas.views import RolloutView
from sync_service.store import views
from sync_service.store.recordset import recordset

_FIND_MANY = text("""
SELECT id, run, group_id, state, digest FROM rollouts WHERE id = ANY(CAST(:ids AS uuid[]))
""")


async def find_many(connection: AsyncConnection, ids: Collection[str]) -> dict[str, Row]:
    """Those of `ids` that exist: id, run, group_id, state, digest."""
    rows = await connection.execute(_FIND_MANY, {"ids": list(ids)})
    return {row.id: row for row in rows}


_FINAL_SLOTS = text("""
SELECT group_id, slot FROM rollouts WHERE group_id = ANY(CAST(:groups AS uuid[])) AND state <> 'late'
""")


async def final_slots(connection: AsyncConnection, groups: Collection[str]) -> set[tuple[str, int]]:
    """The (group, slot) that have their rollout."""
    rows = await connection.execute(_FINAL_SLOTS, {"groups": list(groups)})
    return {(row.group_id, row.slot) for row in rows}


_INSERT = text("""
INSERT INTO rollouts (id, run, group_id, slot, state, reason, planner_trajectory, r_format, r_correct,
    executor_trajectories, tokens, version_epoch, version_step, version_updates, digest)
SELECT id, run, group_id, slot, state, reason, planner_trajectory, r_format, r_correct,
    executor_trajectories, tokens, version_epoch, version_step, version_updates, decode(digest, 'hex')
FROM json_to_recordset(CAST(:rows AS json)) AS r (
    id uuid, run text, group_id uuid, slot int, state text, reason text, planner_trajectory uuid,
    r_format smallint, r_correct double precision, executor_trajectories uuid[], tokens bigint,
    version_epoch int, version_step int, version_updates int, digest text)
""")


async def insert(connection: AsyncConnection, rows: Iterable[Mapping[str, Any]]) -> None:
    """Record new rollouts."""
    await connection.execute(_INSERT, {"rows": recordset(rows)})


_RECORD_FATES = text("""
UPDATE rollouts r SET multiplicity = f.multiplicity, fate_reason = f.reason
FROM json_to_recordset(CAST(:fates AS json)) AS f (id uuid, multiplicity int, reason text), groups g
WHERE g.run = :run AND g.step = :step AND r.group_id = g.id AND r.state = 'reported' AND r.planner_trajectory = f.id
""")


async def record_fates(connection: AsyncConnection, run: str, step: int, fates: list[dict[str, Any]]) -> None:
    """Write what became of the planner trajectories of a step."""
    await connection.execute(_RECORD_FATES, {"run": run, "step": step, "fates": recordset(fates)})


_FORGET_FATES = text("""
UPDATE rollouts r SET multiplicity = NULL, fate_reason = NULL
FROM groups g WHERE g.run = :run AND g.step = ANY(:steps) AND r.group_id = g.id
""")


async def forget_fates(connection: AsyncConnection, run: str, steps: list[int]) -> None:
    """Planner trajectories of `steps` are to be trained again."""
    await connection.execute(_FORGET_FATES, {"run": run, "steps": steps})


_VIEW = text("""
SELECT id, run, group_id AS "group", slot, state, reason, planner_trajectory, r_format, r_correct,
    executor_trajectories, tokens, version_epoch, version_step, version_updates, received_at, multiplicity, fate_reason
FROM rollouts WHERE id = CAST(:id AS uuid)
""")


async def view(connection: AsyncConnection, id: str) -> RolloutView:
    """One rollout; NotFound where there is none."""
    row = (await connection.execute(_VIEW, {"id": id})).one_or_none()
    if row is None:
        raise NotFound(f"there is no rollout {id}")
    return views.view(RolloutView, row)
