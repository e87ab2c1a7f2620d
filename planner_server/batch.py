"""From a delivery to the planner's rows: K rollouts a group, each row once, advantages over the group (Eqs 9-10)."""

from collections import Counter
from collections.abc import Mapping

from shared.mgrpo.advantages import group_advantages
from shared.mgrpo.rewards import planner_reward
from shared.mgrpo.staleness import split_stale
from shared.policy.types import TrainRow, Trajectory
from shared.schemas.run import RunSpec
from shared.schemas.stream import DeliveredGroup, DeliveredRollout, DeliveryView
from shared.serving.batch import DEAD, DISCARDED, LOST, STALE, Batch, distinct_share, staleness_statistics
from shared.serving.spread import Reward, reward_statistics


def planner_batch(delivery: DeliveryView, stored: Mapping[str, Trajectory], spec: RunSpec, updates: int) -> Batch:
    """The batch of one step; `updates` are the optimiser steps behind the weights that it is trained into."""
    batch, rewards, ages, dead = Batch(), [], {}, 0
    groups: list[list[str]] = []
    for group in delivery.groups:
        rollouts = _present(group, stored, batch)
        versions = {name: rollout.version for name, rollout in rollouts.items() if rollout.version}
        age = split_stale(versions, updates=updates, bound=spec.staleness)
        ages |= age.by_row
        batch.fates |= dict.fromkeys(age.stale, STALE)
        kept = {name: _reward(rollouts[name], spec) for name in age.kept}
        baseline = group_advantages(list(kept.values()))
        for name, advantage in zip(kept, baseline.advantages, strict=True):
            batch.rows.append(TrainRow(name, advantage, 1.0, baseline.dead))
            batch.fates[name] = DEAD if baseline.dead else 1
        rewards += [Reward(group.id, name, value) for name, value in kept.items()]
        groups += [list(kept)] if kept else []
        dead += baseline.dead and group.state == "complete"
    batch.statistics = {
        **_counts(delivery),
        **reward_statistics(rewards),
        **staleness_statistics(ages),
        "groups_dead": dead,
        "rows_distinct": len(rewards),
        "unique_action_rate": distinct_share(groups, stored),
    }
    batch.histograms = {"staleness": dict(Counter(map(str, ages.values())))}
    return batch


def _present(group: DeliveredGroup, stored: Mapping[str, Trajectory], batch: Batch) -> dict[str, DeliveredRollout]:
    """The reported rollouts of a complete group by planner trajectory; the others get their fate."""
    present = {}
    for rollout in group.rollouts:
        name = rollout.planner_trajectory
        if name is None:
            continue
        if group.state != "complete":
            batch.fates[name] = DISCARDED
        elif name not in stored:
            batch.fates[name] = LOST
        else:
            present[name] = rollout
    return present


def _reward(rollout: DeliveredRollout, spec: RunSpec) -> float:
    assert rollout.r_format is not None
    assert rollout.r_correct is not None
    return planner_reward(rollout.r_format, rollout.r_correct, spec.planner_reward)


def _counts(delivery: DeliveryView) -> dict[str, float]:
    rollouts = [rollout for group in delivery.groups for rollout in group.rollouts]
    reported = [rollout for rollout in rollouts if rollout.status == "reported"]
    counts: dict[str, float] = {
        "groups": len(delivery.groups),
        "groups_discarded": sum(group.state == "discarded" for group in delivery.groups),
        "rollouts": len(rollouts),
        "rollouts_aborted": len(rollouts) - len(reported),
    }
    if reported:
        counts["correct_mean"] = sum(rollout.r_correct or 0.0 for rollout in reported) / len(reported)
        counts["format_mean"] = sum(rollout.r_format or 0 for rollout in reported) / len(reported)
        counts["calls_mean"] = sum(rollout.calls for rollout in reported) / len(reported)
    return counts
