"""The executor's trajectories. A row exists from the moment a rollout names it or somebody submits it."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import NotFound
from shared.schemas.views import TrajectoryRecord
from sync_service.store import views
from sync_service.store.recordset import recordset, uuids
from sync_service.store.statement import Statement

_FIND_MANY = Statement("""
SELECT id, run, rollout_id, group_id, named_by, state, accepted, digest
FROM trajectories WHERE id = ANY(CAST(:ids AS uuid[]))
""")


async def find_many(connection: AsyncConnection, ids: Collection[str]) -> dict[str, Row]:
    """Those of `ids` that exist: id, run, rollout_id, group_id, named_by, state, accepted, digest."""
    rows = await _FIND_MANY.rows(connection, {"ids": uuids(ids)})
    return {row.id: row for row in rows}


_SUBMIT = Statement("""
INSERT INTO trajectories AS t (id, run, rollout_id, group_id, state, reason, unscored_reason, r_format, r_expert,
    tokens, version_epoch, version_step, version_updates, accepted, digest, received_at, orphan_at)
SELECT id, run, rollout_id, group_id, state, reason, unscored_reason, r_format, r_expert,
    tokens, version_epoch, version_step, version_updates, accepted, decode(digest, 'hex'), now(),
    now() + make_interval(secs => orphan_s)
FROM json_to_recordset(CAST(:rows AS json)) AS s (
    id uuid, run text, rollout_id uuid, group_id uuid, state text, reason text, unscored_reason text,
    r_format smallint, r_expert double precision, tokens bigint, version_epoch int, version_step int,
    version_updates int, accepted boolean, digest text, orphan_s double precision)
ORDER BY id
ON CONFLICT (id) DO UPDATE SET
    state = excluded.state, reason = excluded.reason, unscored_reason = excluded.unscored_reason,
    r_format = excluded.r_format, r_expert = excluded.r_expert, tokens = excluded.tokens,
    version_epoch = excluded.version_epoch, version_step = excluded.version_step,
    version_updates = excluded.version_updates, accepted = excluded.accepted, digest = excluded.digest,
    received_at = excluded.received_at
WHERE t.state = 'awaited' AND t.rollout_id = excluded.rollout_id AND t.run = excluded.run
    AND t.group_id = excluded.group_id
""")


async def submit(connection: AsyncConnection, rows: list[dict[str, Any]]) -> bool:
    """Record scores; false where a rollout named one of them in between, and with it a group that is not locked."""
    return await _SUBMIT.count(connection, {"rows": recordset(rows)}) == len(rows)


_ORPHAN_DUE = text("""
UPDATE trajectories t SET state = 'orphan', reason = 'rollout-unknown'
FROM runs r
WHERE r.run = t.run AND r.state <> 'paused' AND t.group_id IS NULL AND t.orphan_at <= now()
    AND t.state IN ('scored', 'unscored')
""")


async def orphan_due(connection: AsyncConnection) -> int:
    """Give up trajectories whose rollout never came; how many."""
    return (await connection.execute(_ORPHAN_DUE)).rowcount


_DISCARD = text("""
UPDATE trajectories SET batch_step = NULL,
    state = CASE WHEN state IN ('scored', 'unscored') THEN 'dropped' ELSE state END,
    reason = CASE WHEN state IN ('scored', 'unscored') THEN 'discarded' ELSE reason END
WHERE group_id = ANY(CAST(:groups AS uuid[])) AND (batch_step IS NULL OR NOT :delivered)
""")


async def discard(connection: AsyncConnection, groups: list[str], *, delivered: bool) -> None:
    """The groups are discarded. `delivered`: a batch step means that a delivery was cut with the row, and keeps it."""
    await connection.execute(_DISCARD, {"groups": uuids(groups), "delivered": delivered})


_DROP_AT_SEAL = text("""
UPDATE trajectories SET state = 'dropped', batch_step = NULL, reason = CASE
    WHEN named_by = 'aborted' THEN 'rollout-aborted' WHEN NOT :trained THEN 'not-trained' ELSE 'unscored' END
WHERE group_id = ANY(CAST(:groups AS uuid[])) AND state IN ('scored', 'unscored')
    AND (named_by = 'aborted' OR NOT :trained OR :pooled AND state = 'unscored' AND batch_step IS NULL)
""")


async def drop_at_seal(connection: AsyncConnection, groups: list[str], *, trained: bool, pooled: bool) -> None:
    """What no delivery will hold: of aborted rollouts; all, where the executor does not train; unscored in a pool."""
    await connection.execute(_DROP_AT_SEAL, {"groups": uuids(groups), "trained": trained, "pooled": pooled})


_COLLECT = text("""
UPDATE trajectories SET batch_step = :step
WHERE run = :run AND batch_step IS NULL AND named_by = 'reported' AND state = 'scored'
""")


async def collect(connection: AsyncConnection, run: str, step: int) -> None:
    """Cutter `arrival`: the delivery of `step` holds what is scored and reported, and in no delivery yet."""
    await connection.execute(_COLLECT, {"run": run, "step": step})


_DROP_POOL = text("""
UPDATE trajectories SET state = 'dropped', reason = 'drained'
WHERE run = :run AND batch_step IS NULL AND named_by = 'reported' AND state = 'scored'
""")


async def drop_pool(connection: AsyncConnection, run: str) -> None:
    """Cutter `arrival`, drained: no cut comes that could still take these."""
    await connection.execute(_DROP_POOL, {"run": run})


_RECORD_FATES = Statement("""
UPDATE trajectories t SET multiplicity = f.multiplicity, reason = f.reason,
    state = CASE WHEN f.multiplicity IS NULL THEN 'dropped' ELSE 'trained' END
FROM json_to_recordset(CAST(:fates AS json)) AS f (id uuid, multiplicity int, reason text)
WHERE t.id = f.id AND (t.state = 'scored' OR t.state = 'unscored' AND f.multiplicity IS NULL)
RETURNING t.id, t.state
""")


async def record_fates(connection: AsyncConnection, fates: list[dict[str, Any]]) -> dict[str, str]:
    """Write what became of scored and unscored trajectories; the new states of those that moved."""
    rows = await _RECORD_FATES.rows(connection, {"fates": recordset(fates)})
    return {row.id: row.state for row in rows}


_FORGET_FATES = text("""
UPDATE trajectories SET multiplicity = NULL, reason = NULL,
    state = CASE WHEN unscored_reason IS NULL THEN 'scored' ELSE 'unscored' END
WHERE run = :run AND batch_step = ANY(:steps) AND state IN ('trained', 'dropped')
""")


async def forget_fates(connection: AsyncConnection, run: str, steps: list[int]) -> None:
    """Trajectories of the deliveries of `steps` are to be trained again."""
    await connection.execute(_FORGET_FATES, {"run": run, "steps": steps})


_COLUMNS = """
SELECT id, run, rollout_id AS rollout, group_id AS "group", state, coalesce(reason, unscored_reason) AS reason,
    r_format, r_expert, tokens, version_epoch, version_step, version_updates, received_at, batch_step AS step,
    multiplicity
FROM trajectories
"""
_VIEW = text(f"{_COLUMNS} WHERE id = CAST(:id AS uuid)")
_OF_GROUP = text(f"""{_COLUMNS}
WHERE group_id = CAST(:group AS uuid) AND CAST(id AS text) > :id ORDER BY CAST(id AS text) LIMIT :limit
""")


async def view(connection: AsyncConnection, id: str) -> TrajectoryRecord:
    """One trajectory; NotFound where nobody named or submitted it."""
    row = (await connection.execute(_VIEW, {"id": id})).one_or_none()
    if row is None:
        raise NotFound(f"there is no trajectory {id}")
    return views.view(TrajectoryRecord, row)


async def of_group(connection: AsyncConnection, group: str, after: str, limit: int) -> list[TrajectoryRecord]:
    """The trajectories of the group's rollouts in the order of their ids, above `after`."""
    found = {"group": group, "id": after, "limit": limit}
    return [views.view(TrajectoryRecord, row) for row in await connection.execute(_OF_GROUP, found)]
