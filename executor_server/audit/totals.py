"""The statistics of a whole step, again, from the parts of all its groups."""

from collections import Counter
from collections.abc import Sequence

from executor_server.alignment import effective_sample_size
from executor_server.audit.executor import NEVER_CAME
from executor_server.audit.part import Part
from executor_server.audit.record import GroupRecord
from shared.schemas.run import TERMS
from shared.serving.batch import staleness_statistics
from shared.serving.spread import Reward, reward_statistics

Statistics = dict[str, float]
Histograms = dict[str, dict[str, int]]


def totals(parts: Sequence[Part], records: Sequence[GroupRecord], delegated: float) -> tuple[Statistics, Histograms]:
    """Statistics and histograms of one role's step, by the names under which trainers send them.

    `delegated`: rows that the planner's server says it has below its rollouts; nobody else knows of them.
    """
    role, ages = parts[0].role, {name: age for part in parts for name, age in part.ages.items()}
    drawn = [
        Reward(part.group, row.rollout, row.reward, row.weight)
        for part in parts
        for row in part.rows
        if row.reward is not None and row.weight > 0
    ]
    counted = _of_planner(records) if role == "planner" else _of_executor(records, parts)
    statistics: Statistics = {
        "groups": len(records),
        "groups_discarded": sum(record.group.state == "discarded" for record in records),
        "groups_dead": sum(part.dead for part in parts),
        "rows_distinct": len(drawn) + delegated,
        **reward_statistics(drawn),
        **staleness_statistics(ages),
        **counted,
    }
    fates = Counter("trained" if isinstance(row.fate, int) else row.fate for part in parts for row in part.rows)
    if role == "executor" and (never := _never_came(records, parts)):
        fates["awaited"] += never
    return statistics, {"staleness": dict(Counter(map(str, ages.values()))), "fates": dict(fates)}


def _of_planner(records: Sequence[GroupRecord]) -> Statistics:
    complete = [record for record in records if record.group.state == "complete"]
    rollouts = [r for record in complete for r in record.rollouts if r.state != "late"]
    reported = [r for r in rollouts if r.state == "reported"]
    # an aborted rollout is in no delivery of the planner
    found: Statistics = {"rollouts": len(reported)}
    if reported:
        found["correct_mean"] = sum(r.r_correct or 0.0 for r in reported) / len(reported)
        found["format_mean"] = sum(r.r_format or 0 for r in reported) / len(reported)
    if any(r.executor_trajectories for r in reported):  # else it may be a team of one model, whose calls it alone knows
        found["calls_mean"] = sum(len(r.executor_trajectories) for r in reported) / len(reported)
    for term in TERMS:
        scores = [score for r in reported if (score := getattr(r, f"r_{term}")) is not None]
        if scores:  # the run's reward has this term
            found[f"{term}_mean"] = sum(scores) / len(scores)
    return found


def _of_executor(records: Sequence[GroupRecord], parts: Sequence[Part]) -> Statistics:
    aligned = [part.alignment for part in parts if part.alignment is not None]
    delivered = [t for part, record in zip(parts, records, strict=True) for _, t in record.delivered(part.step)]
    found: Statistics = {
        f"rows_{key}": sum(getattr(a, key) for a in aligned) for key in ("copied", "dropped", "masked")
    }
    found["trajectories"] = len(delivered)
    found["effective_sample_size"] = effective_sample_size(row.weight for part in parts for row in part.rows)
    return found


def _never_came(records: Sequence[GroupRecord], parts: Sequence[Part]) -> int:
    """Trajectories that were delivered before their scores, which the trainer had to name all the same."""
    pairs = zip(parts, records, strict=True)
    return sum(t.state in NEVER_CAME for part, record in pairs for _, t in record.delivered(part.step))
