"""A role's training as Prometheus sees it: the last step's statistics, and what all steps of this process add up to."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from shared.schemas import Role
from shared.schemas.stream import Ack

LAST = {
    "reward_mean": ("reward_mean", "Mean reward"),
    "reward_deviation": ("reward_deviation", "Deviation of the rewards"),
    "correct_mean": ("correct_mean", "Mean correctness of the rollouts (planner)"),
    "format_mean": ("format_mean", "Mean format reward"),
    "expert_mean": ("expert_mean", "Mean expert score (executor)"),
    "calls_mean": ("calls_mean", "Mean number of delegations a rollout, or of calls of a single model (planner)"),
    "groups": ("groups", "Groups"),
    "groups_dead": ("dead_groups", "Groups whose rewards are all equal, which train nothing"),
    "rows_distinct": ("distinct_rows", "Rows that are not copies of another"),
    "rows_copied": ("copied_rows", "Copies that alignment made (executor)"),
    "rows_dropped": ("dropped_rows", "Rows that alignment did not draw (executor)"),
    "rows_masked": ("masked_rows", "Places of rollouts without a call (executor)"),
    "effective_sample_size": ("effective_rows", "Effective sample size after alignment (executor)"),
    "unique_action_rate": ("unique_action_ratio", "Share of a group's rows whose sampled tokens differ"),
    "staleness_mean": ("staleness_mean", "Mean staleness of the rows, in optimiser steps"),
    "staleness_max": ("staleness_max", "Highest staleness of a row, in optimiser steps"),
    "clip_fraction": ("clip_ratio", "Share of the trained tokens whose ratio was clipped"),
    "gap_mean": ("logprob_gap_mean", "Mean distance of the sampler's log-probs from the trainer's, in nats"),
    "gap_max": ("logprob_gap_max", "Largest distance of the sampler's log-probs from the trainer's, in nats"),
    "kl": ("kl", "Mean divergence from the reference, in nats"),
    "loss": ("loss", "Loss"),
    "gradient_norm": ("gradient_norm", "Norm of the gradient before clipping"),
    "learning_rate": ("learning_rate", "Learning rate"),
}
"""By statistic of an ack: the name after `tandem_step_`, and what it is. Others are in the curves only."""


class StepMetrics:
    """A `MetricsSink`, too: it keeps the last record."""

    def __init__(self, registry: CollectorRegistry, run: str, role: Role) -> None:
        self._of, names = (run, role), ("run", "role")
        self._last = {
            key: Gauge(f"tandem_step_{name}", f"{text}; of the last step.", names, registry=registry)
            for key, (name, text) in LAST.items()
        }

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"tandem_{name}", text, (*names, *labels), registry=registry)

        self._steps = counter("steps", "Steps that were acked, by outcome.", "outcome")
        self._groups = counter("trained_groups", "Groups of the steps that were acked.")
        self._dead = counter("trained_dead_groups", "Those whose rewards were all equal, which trained nothing.")
        self._rows = counter("trained_rows", "Trajectories of the steps that were acked, by fate.", "fate")
        self._tokens = counter("trained_tokens", "Sampled tokens that were trained on.")
        self._seconds = counter("trainer_busy_seconds", "Seconds that the trainer computed for the steps.")
        self._lost = counter("lost_steps", "Steps that were begun and given up: the lease was lost.")
        for total in (self._groups, self._dead, self._tokens, self._seconds, self._lost):
            total.labels(*self._of)  # 0 from the start

    def record(self, role: Role, step: int, values: Mapping[str, float]) -> None:
        """Show this step; what it has no value for shows nothing."""
        for key, gauge in self._last.items():
            gauge.clear()
            if key in values:
                gauge.labels(*self._of).set(values[key])

    def close(self) -> None:
        """Nothing is written."""

    def count(self, ack: Ack) -> None:
        """Add a step to the totals."""
        of, values = self._of, ack.statistics
        self._steps.labels(*of, ack.outcome).inc()
        self._groups.labels(*of).inc(values.get("groups", 0))
        self._dead.labels(*of).inc(values.get("groups_dead", 0))
        self._tokens.labels(*of).inc(values.get("trained_tokens", 0))
        self._seconds.labels(*of).inc(values.get("seconds", 0))
        for fate, rows in ack.histograms.get("fates", {}).items():
            self._rows.labels(*of, fate).inc(rows)

    def count_lost(self) -> None:
        """A step was lost."""
        self._lost.labels(*self._of).inc()
