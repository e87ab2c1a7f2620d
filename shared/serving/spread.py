"""Where the rewards of a step differ: within rollouts, and between the rollouts of a group."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import fsum, sqrt


@dataclass(frozen=True, slots=True)
class Reward:
    """One distinct row: its reward, counted `weight` times."""

    group: str
    rollout: str
    value: float
    weight: float = 1.0


def reward_statistics(rewards: Iterable[Reward]) -> dict[str, float]:
    """Mean and population deviation, and the variance about the group's mean, split by the rollout's mean; {} if none.

    Keys: reward_mean, reward_deviation, reward_variance_within, reward_variance_between (rollouts).
    """
    rows = [reward for reward in rewards if reward.weight > 0]
    if not rows:
        return {}
    groups: defaultdict[str, list[Reward]] = defaultdict(list)
    rollouts: defaultdict[tuple[str, str], list[Reward]] = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
        rollouts[row.group, row.rollout].append(row)
    total = fsum(row.weight for row in rows)
    mean = _mean(rows)
    centre = {name: _mean(members) for name, members in groups.items()}
    within = fsum(_squares(members, _mean(members)) for members in rollouts.values())
    about = fsum(_squares(members, centre[name]) for name, members in groups.items())
    return {
        "reward_mean": mean,
        "reward_deviation": sqrt(_squares(rows, mean) / total),
        "reward_variance_within": within / total,
        "reward_variance_between": max(0.0, about - within) / total,
    }


def _mean(rows: list[Reward]) -> float:
    return fsum(row.weight * row.value for row in rows) / fsum(row.weight for row in rows)


def _squares(rows: list[Reward], centre: float) -> float:
    return fsum(row.weight * (row.value - centre) ** 2 for row in rows)
