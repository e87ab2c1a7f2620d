"""The executor's rows of one group, again: shared fate, alignment, the pooled baseline (Eqs 5, 9-13)."""

from executor_server.alignment import align
from executor_server.audit.part import Part, Row
from executor_server.audit.record import GroupRecord, recorded_fate
from shared.mgrpo.advantages import group_advantages
from shared.mgrpo.rewards import correct_main, executor_reward
from shared.mgrpo.staleness import split_stale
from shared.schemas.run import RunSpec
from shared.schemas.stream import Fate
from shared.schemas.views import RolloutView, TrajectoryRecord
from shared.serving.batch import DEAD, DISCARDED, LOST, STALE

NOT_DRAWN, UNSCORED = "alignment-dropped", "unscored"
NEVER_CAME = ("awaited", "late", "orphan")
"""No score had come when the delivery was made: no row, and no fate is recorded."""
Pair = tuple[RolloutView, TrajectoryRecord]


def executor_part(record: GroupRecord, spec: RunSpec, step: int, updates: int) -> Part:
    """What of the group the executor's delivery of `step` holds."""
    part = Part("executor", step, record.group.group)
    present = _present(record, step, part)
    if record.group.state == "discarded":
        return part
    versions = {name: t.version for name, (_, t) in present.items() if t.version}
    age = split_stale(versions, updates=updates, bound=spec.staleness)
    part.ages = age.by_row
    part.rows += [Row(name, present[name][0].id, STALE) for name in age.by_row if name in age.stale]
    kept = {name: present[name] for name in age.kept}
    part.alignment = align(
        _by_rollout(record, kept, pooled=spec.cutter == "arrival"),
        d_max=spec.d_max,
        mode=spec.alignment,
        run_seed=spec.seed,
        group_id=record.group.group,
    )
    _count(part, kept, spec)
    return part


def _present(record: GroupRecord, step: int, part: Part) -> dict[str, Pair]:
    """The rows that may be trained on; the others are put into `part` with their fate."""
    present: dict[str, Pair] = {}
    for rollout, trajectory in record.delivered(step):
        if trajectory.state in NEVER_CAME:
            continue
        fate = _missing(record, trajectory)
        if fate is None:
            present[trajectory.id] = rollout, trajectory
        else:
            part.rows.append(Row(trajectory.id, rollout.id, fate))
            part.given += [trajectory.id] if fate == LOST else []
    return present


def _missing(record: GroupRecord, trajectory: TrajectoryRecord) -> str | None:
    if record.group.state == "discarded":
        return DISCARDED
    if trajectory.r_format is None or (trajectory.r_expert is None and trajectory.r_format == 1):
        return UNSCORED
    given = recorded_fate(trajectory)
    if given == UNSCORED and trajectory.r_expert is None:  # of an invalid format: a server may say so all the same
        return UNSCORED
    return LOST if given == LOST else None


def _by_rollout(record: GroupRecord, kept: dict[str, Pair], *, pooled: bool) -> dict[str, list[str]]:
    """Every slot's rollout, those without a row too: they are masked. `pooled`: only rollouts that have a row."""
    slots = [] if pooled else [r.id for r in record.rollouts if r.state in ("reported", "aborted")]
    ids: dict[str, list[str]] = {name: [] for name in slots}
    for name, (rollout, _) in kept.items():
        ids.setdefault(rollout.id, []).append(name)
    return ids


def _count(part: Part, kept: dict[str, Pair], spec: RunSpec) -> None:
    """Rewards, the baseline and the fates of what was aligned."""
    assert part.alignment is not None
    weights = part.alignment.multiplicity
    rewards = {name: _reward(*kept[name], spec) for name in weights}
    drawn = [name for name, weight in weights.items() if weight > 0]
    baseline = group_advantages([rewards[name] for name in drawn], [weights[name] for name in drawn])
    part.dead = baseline.dead and bool(drawn)
    advantages = dict(zip(drawn, baseline.advantages, strict=True))
    for name, weight in weights.items():
        fate = NOT_DRAWN if weight == 0 else DEAD if baseline.dead else _times(weight)
        part.rows.append(Row(name, kept[name][0].id, fate, rewards[name], advantages.get(name), weight))


def _times(weight: float) -> Fate:
    """How often a row is told to have been trained on: its weight where that is whole, as under `copies`, else once."""
    return int(weight) if weight == int(weight) else 1


def _reward(rollout: RolloutView, trajectory: TrajectoryRecord, spec: RunSpec) -> float:
    assert rollout.r_format is not None
    assert rollout.r_correct is not None
    assert trajectory.r_format is not None
    shared_fate = correct_main(rollout.r_format, rollout.r_correct)
    return executor_reward(trajectory.r_format, shared_fate, trajectory.r_expert, spec.executor_reward)
