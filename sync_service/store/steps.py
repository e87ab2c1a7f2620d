"""A step and what is in it, for a person who looks: its groups, their rollouts, the trajectories that these caused."""

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

_STEPS = text("""
SELECT b.step, b.opened, b.closed, b.sealed, b.cut_at, d.role, d.state, d.outcome, d.reason, d.acked_at,
    CAST(d.statistics ->> 'reward_mean' AS double precision) AS reward_mean,
    CAST(d.statistics ->> 'groups_dead' AS double precision) AS groups_dead
FROM (SELECT * FROM batches WHERE run = :run AND step < :before ORDER BY step DESC LIMIT :limit) AS b
LEFT JOIN deliveries d ON d.run = b.run AND d.step = b.step ORDER BY b.step DESC, d.role DESC
""")


async def below(connection: AsyncConnection, run: str, before: int, limit: int) -> list[Row]:
    """The last `limit` steps below `before`, the newest first: a row a role."""
    return list(await connection.execute(_STEPS, {"run": run, "before": before, "limit": limit}))


_GROUPS = text("""
SELECT id, index, task_id, state, scoring, reason, final, reported, opened_at, closed_at FROM groups
WHERE run = :run AND step = :step ORDER BY index
""")


async def groups(connection: AsyncConnection, run: str, step: int) -> list[Row]:
    """The groups of a step, by index."""
    return list(await connection.execute(_GROUPS, {"run": run, "step": step}))


_ROLLOUTS = """
SELECT r.id, r.group_id AS "group", r.slot, r.state, r.reason, r.planner_trajectory, r.r_format, r.r_correct,
    r.r_protocol, r.r_efficiency, r.r_diversity, cardinality(r.executor_trajectories) AS calls,
    r.executor_trajectories, r.tokens, r.version_epoch, r.version_step, r.version_updates,
    r.received_at, r.multiplicity, r.fate_reason, g.step, g.index, g.task_id, g.state AS group_state
FROM groups g JOIN rollouts r ON r.group_id = g.id
"""
_OF_STEP = text(
    f"{_ROLLOUTS} WHERE g.run = :run AND g.step = :step ORDER BY g.index, r.slot, r.received_at LIMIT :limit"
)
_ONE = text(f"""
{_ROLLOUTS} WHERE g.run = :run AND r.id = CAST(:rollout AS uuid)
""")


async def rollouts(connection: AsyncConnection, run: str, step: int, limit: int) -> list[Row]:
    """The rollouts of a step, late ones too, by group and slot."""
    return list(await connection.execute(_OF_STEP, {"run": run, "step": step, "limit": limit}))


async def rollout(connection: AsyncConnection, run: str, rollout: str) -> Row | None:
    """One rollout of the run, with the place of its group."""
    return (await connection.execute(_ONE, {"run": run, "rollout": rollout})).one_or_none()


_TRAJECTORIES = """
SELECT t.id, t.rollout_id AS rollout, t.state, coalesce(t.reason, t.unscored_reason) AS reason, t.r_format, t.r_expert,
    t.tokens, t.version_epoch, t.version_step, t.version_updates, t.received_at, t.batch_step, t.multiplicity
FROM trajectories t
"""
_OF_ROLLOUT = text(f"""
{_TRAJECTORIES} WHERE t.rollout_id = CAST(:rollout AS uuid) AND t.group_id = CAST(:group AS uuid) LIMIT :limit
""")


async def trajectories(connection: AsyncConnection, group: str, rollout: str, limit: int) -> list[Row]:
    """The executor's trajectories of a rollout, those that it does not name too, in no order."""
    found = {"group": group, "rollout": rollout, "limit": limit}
    return list(await connection.execute(_OF_ROLLOUT, found))


_FATES = text("""
SELECT t.rollout_id AS rollout, t.state, coalesce(t.reason, t.unscored_reason) AS reason, t.multiplicity,
    count(*) AS count
FROM groups g JOIN trajectories t ON t.group_id = g.id
WHERE g.run = :run AND g.step = :step GROUP BY 1, 2, 3, 4
""")


async def fates(connection: AsyncConnection, run: str, step: int) -> list[Row]:
    """How many trajectories of each rollout of a step came to what: rollout, state, reason, multiplicity, count."""
    return list(await connection.execute(_FATES, {"run": run, "step": step}))
