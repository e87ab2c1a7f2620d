"""Tokens per second of sampling and of training, of each role and of both."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from shared.schemas import Role
from shared.schemas.stream import StepStatistics

SAMPLED = "tandem_sampler_tokens_total"


@dataclass(slots=True)
class Sampling:
    """What the samplers made, over the time in which a group was open: tools and the other role's turns included."""

    seconds: float = 0.0
    tokens: dict[Role, int] = field(default_factory=dict)

    def per_second(self) -> dict[Role, float]:
        """Of each role."""
        return {role: round(tokens / self.seconds, 2) for role, tokens in self.tokens.items() if self.seconds}


def sampled_tokens(metrics: str) -> int:
    """The counter of a role server's `/metrics`."""
    samples = (sample for family in text_string_to_metric_families(metrics) for sample in family.samples)
    return int(sum(sample.value for sample in samples if sample.name == SAMPLED))


def training_per_second(steps: Mapping[Role, Sequence[StepStatistics]]) -> dict[Role, float]:
    """Distinct tokens that went through each role's model, forward and backward, over its trainer's own time."""
    return {role: rate for role, of_role in steps.items() if (rate := _rate(step.statistics for step in of_role))}


def _rate(steps: Iterable[Mapping[str, float]]) -> float:
    trained = [step for step in steps if "tokens" in step]
    seconds = sum(step["seconds"] for step in trained)
    return round(sum(step["tokens"] for step in trained) / seconds, 2) if seconds else 0.0
