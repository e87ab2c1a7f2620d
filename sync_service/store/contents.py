"""What a delivery holds: ids and scalars of a batch's groups, as its role needs them.

Planner: the reported rollouts of complete groups. Executor: these and the aborted ones, so that masked slots can be
counted, with the trajectories that reported rollouts name. A discarded group is listed, empty. Executor under cutter
`arrival`: the trajectories that were collected at the cut, with their rollouts and groups, whatever their step.
"""

from collections.abc import Collection
from itertools import groupby

from pydantic import TypeAdapter
from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.schemas.run import TERMS, Term
from shared.schemas.stream import DeliveredGroup
from sync_service.store.statement import Statement
from sync_service.store.views import version

_GROUPS: TypeAdapter[tuple[DeliveredGroup, ...]] = TypeAdapter(tuple[DeliveredGroup, ...])

_COLUMNS = """
SELECT g.id AS group_id, g.step, g.index, g.state AS group_state, r.id, r.slot, r.state, r.reason,
    r.planner_trajectory, r.r_format, r.r_correct, r.r_protocol, r.r_efficiency, r.r_diversity, r.executor_trajectories,
    r.version_epoch, r.version_step, r.version_updates
FROM groups g
"""
_OF_STEP = """
LEFT JOIN rollouts r ON r.group_id = g.id AND g.state = 'complete'
    AND (r.state = 'reported' OR :executor AND r.state = 'aborted')
WHERE g.run = :run AND g.step = :step ORDER BY g.index, r.slot
"""
_COLLECTED = """
JOIN rollouts r ON r.group_id = g.id
WHERE r.id IN (SELECT rollout_id FROM trajectories WHERE run = :run AND batch_step = :step)
ORDER BY g.step, g.index, r.slot
"""
_ROLLOUTS = Statement(_COLUMNS + _OF_STEP)
_ROLLOUTS_COLLECTED = Statement(_COLUMNS + _COLLECTED)
_TRAJECTORIES = Statement("""
SELECT id, state, coalesce(reason, unscored_reason) AS reason, r_format, r_expert,
    version_epoch, version_step, version_updates
FROM trajectories WHERE run = :run AND batch_step = :step AND named_by = 'reported'
""")


async def groups(
    connection: AsyncConnection, run: str, role: str, step: int, *, pooled: bool
) -> tuple[DeliveredGroup, ...]:
    """The groups of one delivery. `pooled`: the executor's delivery of cutter `arrival`."""
    place = {"run": run, "step": step}
    executor = role == "executor"
    if pooled:
        rows = await _ROLLOUTS_COLLECTED.rows(connection, place)
    else:
        rows = await _ROLLOUTS.rows(connection, {**place, "executor": executor})
    trajectories = await _TRAJECTORIES.rows(connection, place) if executor else ()
    owned = {row.id: _trajectory(row) for row in trajectories}
    terms = () if executor else TERMS
    found = tuple(_group(list(of_group), owned, terms) for _, of_group in groupby(rows, key=lambda row: row.group_id))
    return _GROUPS.validate_python(found)  # all at once: a call for each row would cost more than the rows


def _group(rows: list[Row], owned: dict[str, dict], terms: Collection[Term]) -> dict:
    """From a group's rows: one a rollout, or a single one without. `terms` of the planner's reward: for it alone."""
    first = rows[0]
    return {
        "id": first.group_id,
        "step": first.step,
        "index": first.index,
        "state": first.group_state,
        "rollouts": tuple(_rollout(row, owned, terms) for row in rows if row.id is not None),
    }


def _trajectory(row: Row) -> dict:
    return {
        "id": row.id,
        "state": row.state,
        "reason": row.reason,
        "r_format": row.r_format,
        "r_expert": row.r_expert,
        "version": version(row),
    }


def _rollout(row: Row, owned: dict[str, dict], terms: Collection[Term]) -> dict:
    return {
        "id": row.id,
        "slot": row.slot,
        "status": row.state,
        "reason": row.reason,
        "planner_trajectory": row.planner_trajectory,
        "r_format": row.r_format,
        "r_correct": row.r_correct,
        **{f"r_{term}": getattr(row, f"r_{term}") for term in terms},
        "calls": len(row.executor_trajectories),
        "version": version(row),
        "executor_trajectories": tuple(owned[id] for id in row.executor_trajectories if id in owned),
    }


_OWNED_PLANNER = Statement("""
SELECT r.planner_trajectory AS id FROM rollouts r JOIN groups g ON g.id = r.group_id
WHERE g.run = :run AND g.step = :step AND g.state = 'complete' AND r.state = 'reported'
""")
_OWNED_EXECUTOR = Statement("""
SELECT id FROM trajectories WHERE run = :run AND batch_step = :step AND named_by = 'reported'
""")


async def owned(connection: AsyncConnection, run: str, role: str, step: int) -> set[str]:
    """The ids of the role's own trajectories in a delivery: an ack tells the fate of each."""
    statement = _OWNED_PLANNER if role == "planner" else _OWNED_EXECUTOR
    return {row.id for row in await statement.rows(connection, {"run": run, "step": step})}
