"""The planner's rows of one group, again: K rollouts, the baseline over those that are fresh (Eqs 4, 9-10)."""

from executor_server.audit.part import Part, Row
from executor_server.audit.record import GroupRecord, recorded_fate
from shared.mgrpo.advantages import group_advantages
from shared.mgrpo.rewards import planner_reward
from shared.mgrpo.staleness import split_stale
from shared.schemas.run import RunSpec
from shared.serving.batch import DEAD, LOST, STALE


def planner_part(record: GroupRecord, spec: RunSpec, updates: int) -> Part:
    """A discarded group has no row; one that its server had lost is taken as lost."""
    part = Part("planner", record.group.step, record.group.group)
    if record.group.state != "complete":
        return part
    reported = [r for r in record.rollouts if r.state == "reported"]
    present = {}
    for rollout in reported:
        assert rollout.planner_trajectory is not None
        if recorded_fate(rollout) == LOST:
            part.given.append(rollout.planner_trajectory)
            part.rows.append(Row(rollout.planner_trajectory, rollout.id, LOST))
        else:
            present[rollout.planner_trajectory] = rollout
    age = split_stale({n: r.version for n, r in present.items() if r.version}, updates=updates, bound=spec.staleness)
    part.ages = age.by_row
    part.rows += [Row(name, present[name].id, STALE) for name in age.by_row if name in age.stale]
    rewards = {}
    for name in age.kept:
        rollout = present[name]
        assert rollout.r_format is not None
        assert rollout.r_correct is not None
        rewards[name] = planner_reward(rollout.r_format, rollout.r_correct, spec.planner_reward, rollout)
    baseline = group_advantages(list(rewards.values()))
    part.dead = baseline.dead
    for (name, reward), advantage in zip(rewards.items(), baseline.advantages, strict=True):
        part.rows.append(Row(name, present[name].id, DEAD if baseline.dead else 1, reward, advantage, 1.0))
    return part
