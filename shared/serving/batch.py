"""What a trainer makes of a delivery: the rows to train on, the fate of every trajectory, and the step's statistics."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.policy.policy import UpdateResult
from shared.policy.types import TrainRow, Trajectory
from shared.schemas.stream import Ack, Fate

DISCARDED, ABORTED, LOST, STALE, DEAD = "discarded", "aborted", "lost", "stale", "dead-group"
"""Reason codes of rows that are not trained on."""
NO_ROWS, ALL_DEAD = "empty-batch", "all-dead"
"""Why a step is skipped."""


@dataclass(slots=True)
class Batch:
    """One step of one role. `fates` names every trajectory of the delivery that the role owns."""

    rows: list[TrainRow] = field(default_factory=list)
    fates: dict[str, Fate] = field(default_factory=dict)
    statistics: dict[str, float] = field(default_factory=dict)
    histograms: dict[str, dict[str, int]] = field(default_factory=dict)

    def ack(self, epoch: int, step: int, result: UpdateResult) -> Ack:
        """The body of the step's ack."""
        reason = None if not result.skipped else ALL_DEAD if self.rows else NO_ROWS
        fates = Counter("trained" if isinstance(fate, int) else fate for fate in self.fates.values())
        return Ack(
            epoch=epoch,
            step=step,
            outcome="skipped" if result.skipped else "trained",
            reason=reason,
            updates=result.updates,
            fates=self.fates,
            statistics={**result.statistics, **self.statistics},
            histograms={**self.histograms, "fates": dict(fates)},
        )


def distinct_share(groups: list[list[str]], stored: Mapping[str, Trajectory]) -> float:
    """The unique-action rate: of the rows of one group, the share whose sampled tokens differ; the mean over groups."""
    shares = []
    for ids in groups:
        actions = {tuple(t for t, m in zip(stored[i].token_ids, stored[i].mask, strict=True) if m) for i in ids}
        shares.append(len(actions) / len(ids))
    return sum(shares) / len(shares) if shares else 0.0


def staleness_statistics(ages: Mapping[str, int]) -> dict[str, float]:
    """Mean and maximum over rows, stale ones too; {} where there is no row."""
    values = list(ages.values())
    return {"staleness_mean": sum(values) / len(values), "staleness_max": max(values)} if values else {}
