"""What a delivery holds: ids and scalars of a batch's groups, as its role needs them.

Planner: the reported rollouts of complete groups. Executor: these and the aborted ones, so that masked slots can be
counted, with the trajectories that reported rollouts name. A discarded group is listed, empty. Executor under cutter
`arrival`: the trajectories that were collected at the cut, with their rollouts and groups, whatever their step.
"""

from collections import defaultdict

from sqlalchemy import Row, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.schemas.stream import DeliveredGroup, DeliveredRollout, DeliveredTrajectory
from sync_service.store.views import version

_GROUPS = text("SELECT id, step, index, state FROM groups WHERE run = :run AND step = :step ORDER BY index")
_GROUPS_COLLECTED = text("""
SELECT id, step, index, state FROM groups
WHERE id IN (SELECT group_id FROM trajectories WHERE run = :run AND batch_step = :step) ORDER BY step, index
""")

_ROLLOUT = """
SELECT r.id, r.group_id, r.slot, r.state, r.reason, r.planner_trajectory, r.r_format, r.r_correct,
    r.executor_trajectories, r.version_epoch, r.version_step, r.version_updates
FROM rollouts r
"""
_OF_STEP = """
WHERE r.group_id IN (SELECT id FROM groups WHERE run = :run AND step = :step AND state = 'complete')
    AND (r.state = 'reported' OR :executor AND r.state = 'aborted') ORDER BY r.slot
"""
_COLLECTED = """
WHERE r.id IN (SELECT rollout_id FROM trajectories WHERE run = :run AND batch_step = :step) ORDER BY r.slot
"""
_ROLLOUTS = text(_ROLLOUT + _OF_STEP)
_ROLLOUTS_COLLECTED = text(_ROLLOUT + _COLLECTED)
_TRAJECTORIES = text("""
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

    async def rows(statement: TextClause, **more: bool) -> list[Row]:
        return list(await connection.execute(statement, {**place, **more}))

    group_rows = await rows(_GROUPS_COLLECTED if pooled else _GROUPS)
    rollout_rows = await (rows(_ROLLOUTS_COLLECTED) if pooled else rows(_ROLLOUTS, executor=executor))
    owned = {row.id: _trajectory(row) for row in await rows(_TRAJECTORIES)} if executor else {}
    by_group: defaultdict[str, list[DeliveredRollout]] = defaultdict(list)
    for row in rollout_rows:
        by_group[row.group_id].append(_rollout(row, owned))
    return tuple(
        DeliveredGroup(id=row.id, step=row.step, index=row.index, state=row.state, rollouts=tuple(by_group[row.id]))
        for row in group_rows
    )


def _trajectory(row: Row) -> DeliveredTrajectory:
    return DeliveredTrajectory.model_validate(
        {
            "id": row.id,
            "state": row.state,
            "reason": row.reason,
            "r_format": row.r_format,
            "r_expert": row.r_expert,
            "version": version(row),
        }
    )


def _rollout(row: Row, owned: dict[str, DeliveredTrajectory]) -> DeliveredRollout:
    return DeliveredRollout.model_validate(
        {
            "id": row.id,
            "slot": row.slot,
            "status": row.state,
            "reason": row.reason,
            "planner_trajectory": row.planner_trajectory,
            "r_format": row.r_format,
            "r_correct": row.r_correct,
            "calls": len(row.executor_trajectories),
            "version": version(row),
            "executor_trajectories": tuple(owned[id] for id in row.executor_trajectories if id in owned),
        }
    )


_OWNED_PLANNER = text("""
SELECT r.planner_trajectory FROM rollouts r JOIN groups g ON g.id = r.group_id
WHERE g.run = :run AND g.step = :step AND g.state = 'complete' AND r.state = 'reported'
""")
_OWNED_EXECUTOR = text("""
SELECT id FROM trajectories WHERE run = :run AND batch_step = :step AND named_by = 'reported'
""")


async def owned(connection: AsyncConnection, run: str, role: str, step: int) -> set[str]:
    """The ids of the role's own trajectories in a delivery: an ack tells the fate of each."""
    statement = _OWNED_PLANNER if role == "planner" else _OWNED_EXECUTOR
    return set((await connection.execute(statement, {"run": run, "step": step})).scalars())
