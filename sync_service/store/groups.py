"""Groups: K slots of one task, closed once, sealed once."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.errors import NotFound
from shared.ids import new_id
from shared.schemas.base import MAX_INTEGER
from shared.schemas.rollout import GroupItem, GroupView
from shared.schemas.run import RunSpec
from sync_service.store.recordset import recordset, uuids
from sync_service.store.runs import Run, parse_spec
from sync_service.store.statement import Statement
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


def _group(row: Any) -> Group:
    fields: dict[str, Any] = {**row._asdict(), "spec": parse_spec(row.spec)}
    return Group(**fields)


_LOCK = """
SELECT g.id, g.run, g.step, g.state, g.scoring, g.final, g.reported,
    r.state <> 'paused' AND g.state = 'open' AND g.deadline <= now() AS due,
    coalesce(r.state <> 'paused' AND g.scoring = 'pending' AND g.score_deadline <= now(), false) AS score_due,
    r.state AS run_state, r.spec::text AS spec
FROM groups g JOIN runs r ON r.run = g.run
"""
_LOCK_IDS = Statement(f"{_LOCK} WHERE g.id = ANY(CAST(:ids AS uuid[])) ORDER BY g.id FOR NO KEY UPDATE OF g")
_OF_ROLLOUTS = """
WHERE g.id IN (SELECT group_id FROM rollouts WHERE id = ANY(CAST(:rollouts AS uuid[])))
ORDER BY g.id FOR NO KEY UPDATE OF g
"""
_LOCK_OF_ROLLOUTS = Statement(_LOCK + _OF_ROLLOUTS)
_LOCK_DUE = Statement(f"""{_LOCK}
WHERE r.state <> 'paused' AND g.id IN (
    SELECT id FROM groups WHERE state = 'open' AND deadline <= now()
    UNION ALL
    SELECT id FROM groups WHERE state = 'complete' AND scoring = 'pending' AND score_deadline <= now())
ORDER BY g.id LIMIT :limit FOR NO KEY UPDATE OF g SKIP LOCKED
""")  # noqa: S608 - no value from outside


async def lock(connection: AsyncConnection, ids: Collection[str]) -> dict[str, Group]:
    """Those of `ids` that exist, locked in the order of their ids."""
    rows = await _LOCK_IDS.rows(connection, {"ids": uuids(ids)})
    return {row.id: _group(row) for row in rows}


async def lock_of_rollouts(connection: AsyncConnection, rollouts: Collection[str]) -> dict[str, Group]:
    """The groups of the rollouts that are known, locked in the order of their ids."""
    rows = await _LOCK_OF_ROLLOUTS.rows(connection, {"rollouts": uuids(rollouts)})
    return {row.id: _group(row) for row in rows}


async def lock_due(connection: AsyncConnection, limit: int) -> list[Group]:
    """Groups that are past a deadline and that nobody else works on."""
    return [_group(row) for row in await _LOCK_DUE.rows(connection, {"limit": limit})]


_ADMISSION = Statement("""
SELECT r.run, r.spec::text AS spec, r.state, r.reason,
    ARRAY(SELECT g.id::text FROM groups g WHERE g.id = ANY(CAST(:ids AS uuid[]))) AS known,
    ARRAY(
        SELECT json_build_array(g.step, g.index, g.id)
        FROM unnest(CAST(:steps AS int[]), CAST(:indexes AS int[])) AS place (step, index)
        CROSS JOIN LATERAL (
            SELECT g.* FROM groups g WHERE g.run = r.run AND g.step = place.step AND g.index = place.index
        ) AS g
    ) AS holders,
    (SELECT coalesce(min(s.live_step), 0) FROM streams s WHERE s.run = r.run) AS live_step
FROM runs r WHERE r.run = :run
""")


@dataclass(frozen=True, slots=True)
class Admission:
    """What decides whether groups may be opened: their run, the ids and places that are taken, the live step."""

    run: Run
    known: set[str]
    holders: dict[tuple[int, int], str]
    live_step: int


async def admission(connection: AsyncConnection, run: str, items: Sequence[GroupItem]) -> Admission:
    """Read it all at once, unlocked: the unique keys decide in the end. NotFound where there is no such run."""
    asked = {
        "run": run,
        "ids": uuids(item.id for item in items),
        "steps": [item.body.step for item in items],
        "indexes": [item.body.index for item in items],
    }
    row = await _ADMISSION.row(connection, asked)
    if row is None:
        raise NotFound(f"there is no run {run}")
    holders = {(step, index): id for step, index, id in row.holders}
    return Admission(Run.of(row), set(row.known), holders, row.live_step)


_OPEN = Statement("""
WITH came AS (
    SELECT * FROM json_to_recordset(CAST(:groups AS json)) AS c (id uuid, step int, index int, task_id text)
), counted AS (
    SELECT step, count(*) AS groups FROM came GROUP BY step ORDER BY step
), batch AS (
    INSERT INTO batches AS b (run, step, opened) SELECT :run, step, groups FROM counted
    ON CONFLICT (run, step) DO UPDATE SET opened = b.opened + excluded.opened
    RETURNING step, opened
), deliveries AS (
    INSERT INTO deliveries (id, run, role, step)
    SELECT d.id, :run, d.role, d.step
    FROM json_to_recordset(CAST(:deliveries AS json)) AS d (id uuid, role text, step int)
    JOIN batch USING (step) JOIN counted USING (step) WHERE batch.opened = counted.groups
)
INSERT INTO groups (id, run, step, index, task_id, deadline)
SELECT id, :run, step, index, task_id, now() + make_interval(secs => :deadline_s) FROM came
""")


async def insert(connection: AsyncConnection, items: Sequence[GroupItem], spec: RunSpec) -> None:
    """Open groups of one run; with the first one of a step, its batch and a delivery for each role that trains."""
    steps = sorted({item.body.step for item in items})
    deliveries = [{"id": new_id(), "role": role, "step": step} for step in steps for role in spec.trained_roles]
    groups = [{"id": item.id, **item.body.model_dump(exclude={"run"})} for item in items]
    values = {"groups": recordset(groups), "deliveries": recordset(deliveries)}
    await _OPEN.count(connection, {"run": items[0].body.run, "deadline_s": spec.rollout_deadline_s, **values})


_SETTLE = Statement("""
WITH settled AS (
    SELECT * FROM json_to_recordset(CAST(:rows AS json)) AS s (id uuid, final int, reported int, state text,
        closing boolean, reason text, score_deadline_s double precision, seal boolean)
), orphaned AS (
    UPDATE trajectories t SET state = 'orphan', reason = 'not-named' FROM settled s
    WHERE s.closing AND t.group_id = s.id AND t.named_by IS NULL AND t.state IN ('scored', 'unscored')
)
UPDATE groups g SET final = s.final, reported = s.reported, state = s.state, reason = coalesce(s.reason, g.reason),
    closed_at = CASE WHEN s.closing THEN now() ELSE g.closed_at END,
    score_deadline = CASE WHEN s.closing AND s.state = 'complete'
        THEN now() + make_interval(secs => s.score_deadline_s) ELSE g.score_deadline END,
    scoring = CASE WHEN s.seal OR s.state = 'complete' AND (
            SELECT true FROM trajectories t
            WHERE t.group_id = s.id AND t.state = 'awaited' AND t.named_by = 'reported' LIMIT 1) IS NULL
        THEN 'sealed' ELSE g.scoring END
FROM settled s WHERE g.id = s.id
RETURNING g.id, g.scoring
""")


async def settle(connection: AsyncConnection, rows: list[dict[str, Any]]) -> dict[str, str]:
    """Write counts and states of locked groups; their scoring then, by id.

    `closing`: it closes now, so what no rollout has named, none will. A complete group is sealed when it awaits no
    trajectory of a reported rollout, or when `seal` says so.
    """
    settled = await _SETTLE.rows(connection, {"rows": recordset(rows)})
    return {row.id: row.scoring for row in settled}


_VIEW = """
SELECT g.id AS "group", g.run, g.step, g.index, g.task_id, g.state, g.scoring, g.reason,
    ARRAY(SELECT slot FROM rollouts r WHERE r.group_id = g.id AND r.state <> 'late' ORDER BY slot) AS final_slots
FROM groups g
"""
_FIND = text(f"{_VIEW} WHERE g.id = CAST(:id AS uuid)")
_FIND_MANY = text(f"{_VIEW} WHERE g.id = ANY(CAST(:ids AS uuid[]))")
_PAGE = text(f"""{_VIEW}
WHERE g.run = :run AND (CAST(:state AS text) IS NULL OR g.state = :state) AND (g.step, g.index) > (:step, :index)
    AND g.step <= :last
ORDER BY g.step, g.index LIMIT :limit
""")


async def find(connection: AsyncConnection, id: str) -> GroupView:
    """One group; NotFound where there is none."""
    row = (await connection.execute(_FIND, {"id": id})).one_or_none()
    if row is None:
        raise NotFound(f"there is no group {id}")
    return view(GroupView, row)


async def find_many(connection: AsyncConnection, ids: Collection[str]) -> dict[str, GroupView]:
    """Those of `ids` that exist."""
    rows = await connection.execute(_FIND_MANY, {"ids": uuids(ids)})
    return {row.group: view(GroupView, row) for row in rows}


async def page(
    connection: AsyncConnection,
    run: str,
    state: str | None,
    after: tuple[int, int],
    limit: int,
    last: int = MAX_INTEGER,
) -> list[GroupView]:
    """The run's groups in the order of step and index, above `after`, up to step `last`."""
    found = {"run": run, "state": state, "step": after[0], "index": after[1], "limit": limit, "last": last}
    return [view(GroupView, row) for row in await connection.execute(_PAGE, found)]
