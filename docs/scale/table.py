"""The table of docs/scale.md, from measured costs: how a step's time, idle shares and the sync load grow.

    python docs/scale/table.py                                  # the table of the page
    python docs/scale/table.py --training-tokens-per-s 20000    # the same with a figure of yours

A model of steady steps: what two pools do at once takes as long as the slower one; nothing waits for a straggler.
"""

import argparse
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Costs:
    """What was measured; each figure's command and machine is in docs/scale.md."""

    sampling_tokens_per_s: float = 3300.0
    """Sampled tokens of one sampler, at full batches."""
    training_tokens_per_s: float = 7500.0
    """Tokens of distinct rows, forward and backward, of one trainer."""
    turnover_s: float = 0.12
    """Of a step, beyond sampling and training: lease, ack, weights to the sampler."""
    service_ms: float = 0.21
    """Of the sync service's process, an item: a rollout, or a trajectory with its scores."""
    bytes: float = 338.0
    """Of bodies, an item."""


@dataclass(frozen=True)
class Load:
    """A step of both roles. Tokens are of one trajectory: those sampled, and all that are trained through."""

    groups: int = 8
    rollouts_per_group: int = 8
    calls: float = 3.0
    samplers: int = 1
    shards: int = 1
    staleness: int = 1
    planner_sampled: float = 200.0
    planner_tokens: float = 340.0
    executor_sampled: float = 200.0
    executor_tokens: float = 340.0

    @property
    def rollouts(self) -> int:
        """Of one step."""
        return self.groups * self.rollouts_per_group


@dataclass(frozen=True)
class Step:
    """Seconds of each part of a step, by what works on it, and of the step itself."""

    parts: dict[str, float]
    step_s: float

    @property
    def first(self) -> str:
        """What saturates first."""
        return max(self.parts, key=lambda name: self.parts[name])

    def busy(self, name: str) -> float:
        """The share of the step in which a part works."""
        return self.parts[name] / self.step_s


def predict(load: Load, costs: Costs) -> Step:
    """A steady step: with staleness 0 the pools of a role take turns, else each works while the other does."""
    sampled = {"planner": load.planner_sampled, "executor": load.calls * load.executor_sampled}
    trained = {"planner": load.planner_tokens, "executor": load.calls * load.executor_tokens}
    sampling_rate = load.samplers * costs.sampling_tokens_per_s
    training_rate = load.shards * costs.training_tokens_per_s
    parts = {f"{role} sampler": load.rollouts * tokens / sampling_rate for role, tokens in sampled.items()}
    parts |= {f"{role} trainer": load.rollouts * tokens / training_rate for role, tokens in trained.items()}
    parts["sync service"] = load.rollouts * (1 + load.calls) * costs.service_ms / 1000
    sampling = max(parts["planner sampler"], parts["executor sampler"])
    training = max(parts["planner trainer"], parts["executor trainer"])
    pools = max(sampling, training) if load.staleness else sampling + training
    return Step(parts, max(pools + costs.turnover_s, parts["sync service"]))


BASE = Load()
LOADS = {
    "8 groups of 8, 3 calls": BASE,
    "staleness 0": replace(BASE, staleness=0),
    "32 groups of 8": replace(BASE, groups=32),
    "128 groups of 8": replace(BASE, groups=128),
    "no calls": replace(BASE, calls=0.0),
    "8 calls a rollout": replace(BASE, calls=8.0),
    "4 samplers a role": replace(BASE, samplers=4),
    "4 samplers and 4 shards a role": replace(BASE, samplers=4, shards=4),
    "8 calls, 4 samplers": replace(BASE, calls=8.0, samplers=4),
    "8 calls, 8 samplers, 8 shards": replace(BASE, calls=8.0, samplers=8, shards=8),
    "128 groups, 64 samplers, 64 shards": replace(BASE, groups=128, samplers=64, shards=64),
    "the same, 8 calls": replace(BASE, groups=128, calls=8.0, samplers=64, shards=64),
}
HEAD = (
    "load",
    "step, s",
    "samplers idle",
    "trainers idle",
    "rollouts/s",
    "sync busy",
    "sync, KiB/s",
    "first to saturate",
)


def table(costs: Costs) -> str:
    """The rows as Markdown."""
    rows = [HEAD, ("---",) * len(HEAD)]
    for name, load in LOADS.items():
        step = predict(load, costs)
        kib = load.rollouts * (1 + load.calls) * costs.bytes / 1024 / step.step_s
        rows.append(
            (
                name,
                f"{step.step_s:,.1f}",
                f"{_idle(step, 'sampler'):.0%}",
                f"{_idle(step, 'trainer'):.0%}",
                f"{load.rollouts / step.step_s:.1f}",
                f"{step.busy('sync service'):.2%}",
                f"{kib:.1f}",
                step.first,
            )
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _idle(step: Step, kind: str) -> float:
    """The mean idle share of both roles' pools of a kind."""
    return 1 - sum(step.busy(f"{role} {kind}") for role in ("planner", "executor")) / 2


def main() -> None:
    """Print the table, with any cost replaced by an option."""
    parser = argparse.ArgumentParser(prog="python docs/scale/table.py", description=__doc__.splitlines()[0])
    for field in fields(Costs):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=float, default=field.default)
    print(table(Costs(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()
