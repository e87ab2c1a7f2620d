"""From a delivery to the executor's rows: stale rows leave, rewards, alignment, pooled baselines (Eqs 5, 9-13)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from executor_server.alignment import Alignment, align, effective_sample_size
from shared.mgrpo.advantages import group_advantages
from shared.mgrpo.rewards import correct_main, executor_reward
from shared.mgrpo.staleness import split_stale
from shared.policy.types import TrainRow, Trajectory
from shared.schemas.run import RunSpec
from shared.schemas.stream import DeliveredGroup, DeliveredRollout, DeliveredTrajectory, DeliveryView, Fate
from shared.serving.batch import ABORTED, DEAD, DISCARDED, LOST, STALE, Batch, distinct_share, staleness_statistics
from shared.serving.spread import Reward, reward_statistics

NOT_DRAWN = "alignment-dropped"


@dataclass(slots=True)
class _Group:
    """One complete group: its rows by id, their rollouts, and the rollouts without a row."""

    view: DeliveredGroup
    rows: dict[str, tuple[DeliveredRollout, DeliveredTrajectory]] = field(default_factory=dict)

    def by_rollout(self) -> dict[str, list[str]]:
        """Every slot's rollout, those without a row too: they are masked."""
        ids: dict[str, list[str]] = {rollout.id: [] for rollout in self.view.rollouts}
        for name, (rollout, _) in self.rows.items():
            ids[rollout.id].append(name)
        return ids


def executor_batch(delivery: DeliveryView, stored: Mapping[str, Trajectory], spec: RunSpec, updates: int) -> Batch:
    """The batch of one step; `updates` are the optimiser steps behind the weights that it is trained into."""
    batch, rewards, ages, dead = Batch(), [], {}, 0
    alignments: list[Alignment] = []
    groups: list[list[str]] = []
    for view in delivery.groups:
        group = _present(view, stored, batch)
        ages |= _drop_stale(group, batch, spec, updates)
        if view.state == "discarded":
            continue
        aligned = align(group.by_rollout(), d_max=spec.d_max, mode=spec.alignment, run_seed=spec.seed, group_id=view.id)
        alignments.append(aligned)
        kept = {name: weight for name, weight in aligned.multiplicity.items() if weight > 0}
        values = {name: _reward(*group.rows[name], spec) for name in kept}
        baseline = group_advantages(list(values.values()), list(kept.values()))
        batch.fates |= dict.fromkeys(aligned.multiplicity, NOT_DRAWN)
        for (name, weight), advantage in zip(kept.items(), baseline.advantages, strict=True):
            batch.rows.append(TrainRow(name, advantage, weight, baseline.dead))
            batch.fates[name] = DEAD if baseline.dead else _fate(weight)
            rewards.append(Reward(view.id, group.rows[name][0].id, values[name], weight))
        groups += [list(kept)] if kept else []
        dead += baseline.dead and bool(kept)
    batch.statistics = {
        **_counts(delivery),
        **reward_statistics(rewards),
        **staleness_statistics(ages),
        **{f"rows_{key}": sum(getattr(a, key) for a in alignments) for key in ("copied", "dropped", "masked")},
        "rows_distinct": len(rewards),
        "effective_sample_size": effective_sample_size(reward.weight for reward in rewards),
        "groups_dead": dead,
        "unique_action_rate": distinct_share(groups, stored),
    }
    calls = Counter(str(r.calls) for view in delivery.groups for r in view.rollouts if r.status == "reported")
    batch.histograms = {"staleness": dict(Counter(map(str, ages.values()))), "calls_per_rollout": dict(calls)}
    return batch


def _fate(weight: float) -> Fate:
    """The multiplicity; under `expected` weights a row is trained once, with a weight that need not be whole."""
    return int(weight) if weight == int(weight) else 1


def _present(view: DeliveredGroup, stored: Mapping[str, Trajectory], batch: Batch) -> _Group:
    """The rows that may be trained on; the others get their fate."""
    group = _Group(view)
    for rollout in view.rollouts:
        for trajectory in rollout.executor_trajectories:
            fate = _missing(view, rollout, trajectory, stored)
            if fate is None:
                group.rows[trajectory.id] = (rollout, trajectory)
            else:
                batch.fates[trajectory.id] = fate
    return group


def _missing(
    view: DeliveredGroup, rollout: DeliveredRollout, trajectory: DeliveredTrajectory, stored: Mapping[str, Trajectory]
) -> str | None:
    if view.state == "discarded":
        return DISCARDED
    if rollout.status == "aborted":
        return ABORTED
    if trajectory.state != "scored":
        return trajectory.state  # unscored, or never submitted
    return None if trajectory.id in stored else LOST


def _drop_stale(group: _Group, batch: Batch, spec: RunSpec, updates: int) -> dict[str, int]:
    """Every row's staleness; those over the bound leave before alignment, and are not in d_k."""
    versions = {name: trajectory.version for name, (_, trajectory) in group.rows.items() if trajectory.version}
    age = split_stale(versions, updates=updates, bound=spec.staleness)
    for name in age.stale:
        del group.rows[name]
        batch.fates[name] = STALE
    return age.by_row


def _reward(rollout: DeliveredRollout, trajectory: DeliveredTrajectory, spec: RunSpec) -> float:
    assert rollout.r_format is not None
    assert rollout.r_correct is not None
    assert trajectory.r_format is not None
    shared_fate = correct_main(rollout.r_format, rollout.r_correct)
    return executor_reward(trajectory.r_format, shared_fate, trajectory.r_expert, spec.executor_reward)


def _counts(delivery: DeliveryView) -> dict[str, float]:
    rows = [t for view in delivery.groups for rollout in view.rollouts for t in rollout.executor_trajectories]
    scored = [row for row in rows if row.state == "scored"]
    judged = [row.r_expert for row in scored if row.r_expert is not None]
    counts: dict[str, float] = {
        "groups": len(delivery.groups),
        "groups_without_rows": sum(not any(r.executor_trajectories for r in v.rollouts) for v in delivery.groups),
        "groups_discarded": sum(view.state == "discarded" for view in delivery.groups),
        "trajectories": len(rows),
        "trajectories_unscored": len(rows) - len(scored),
    }
    if scored:
        counts["format_mean"] = sum(row.r_format or 0 for row in scored) / len(scored)
    if judged:
        counts["expert_mean"] = sum(judged) / len(judged)
    return counts
