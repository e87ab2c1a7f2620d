"""From a delivery to the planner's rows: K rollouts a group, advantages over the group (Eqs 9-10).

A rollout is one row; with what the same policy did below it, several, of the weight of one (linearise.py).
"""

from collections import Counter
from collections.abc import Mapping

from planner_server.linearise import linearise
from shared.mgrpo.advantages import group_advantages
from shared.mgrpo.rewards import planner_reward
from shared.mgrpo.staleness import split_stale
from shared.policy.types import TrainRow, Trajectory
from shared.schemas.run import RunSpec
from shared.schemas.stream import DeliveredGroup, DeliveredRollout, DeliveryView
from shared.serving.batch import DEAD, DISCARDED, LOST, STALE, Batch, distinct_share, staleness_statistics
from shared.serving.spread import Reward, reward_statistics


def planner_batch(delivery: DeliveryView, stored: Mapping[str, Trajectory], spec: RunSpec, updates: int) -> Batch:
    """The batch of one step; `updates` are the optimiser steps behind the weights that it is trained into.

    `stored`: the planner's trajectories, and their parts.
    """
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
        advantages = dict(zip(kept, baseline.advantages, strict=True))
        for row in linearise({name: stored[name].parts for name in kept}):
            batch.rows.append(TrainRow(row.trajectory, advantages[row.rollout], row.weight, baseline.dead))
        batch.fates |= dict.fromkeys(kept, DEAD if baseline.dead else 1)
        rewards += [Reward(group.id, name, value) for name, value in kept.items()]
        groups += [list(kept)] if kept else []
        dead += baseline.dead and group.state == "complete"
    calls = _calls(delivery, stored)
    batch.statistics = {
        **_counts(delivery, spec),
        **({"calls_mean": sum(calls) / len(calls)} if calls else {}),
        **reward_statistics(rewards),
        **staleness_statistics(ages),
        "groups_dead": dead,
        "rows_distinct": len(batch.rows),
        **_delegated(batch.rows, stored),
        "unique_action_rate": distinct_share(groups, stored),
    }
    batch.histograms = {
        "staleness": dict(Counter(map(str, ages.values()))),
        "calls_per_rollout": dict(Counter(map(str, calls))),
    }
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
        elif name not in stored or not stored.keys() >= set(stored[name].parts):
            batch.fates[name] = LOST
        else:
            present[name] = rollout
    return present


def _reward(rollout: DeliveredRollout, spec: RunSpec) -> float:
    assert rollout.r_format is not None
    assert rollout.r_correct is not None
    return planner_reward(rollout.r_format, rollout.r_correct, spec.planner_reward, rollout)


def _delegated(rows: list[TrainRow], stored: Mapping[str, Trajectory]) -> dict[str, float]:
    """Of the rows that are delegations of a policy to itself: how many, and their mean format."""
    formats = [t.facts["answer"]["r_format"] for row in rows if (t := stored[row.trajectory]).role == "executor"]
    mean = {"delegated_format_mean": sum(formats) / len(formats)} if formats else {}
    return {"rows_delegated": len(formats), **mean}


def _calls(delivery: DeliveryView, stored: Mapping[str, Trajectory]) -> list[int]:
    """Of each reported rollout. Calls that no other server answered are known here alone."""
    reported = [r for group in delivery.groups for r in group.rollouts if r.planner_trajectory is not None]
    here = {name: trajectory.facts.get("calls") for name, trajectory in stored.items()}
    return [here.get(rollout.planner_trajectory) or rollout.calls for rollout in reported]


def _counts(delivery: DeliveryView, spec: RunSpec) -> dict[str, float]:
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
        for term in spec.planner_reward.terms:
            counts[f"{term}_mean"] = sum(getattr(rollout, f"r_{term}") for rollout in reported) / len(reported)
    return counts
