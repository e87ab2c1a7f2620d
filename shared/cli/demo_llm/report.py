"""What a run came to: `summary.json`, a table, and last one line of JSON."""

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from shared.cli.demo_llm.follow import Follow
from shared.cli.demo_llm.outcome import Outcome
from shared.cli.demo_llm.rates import training_per_second

GIB = 2**30


def summarise(
    follow: Follow, outcome: Outcome, peak: int, seconds: float, stages: Mapping[str, float]
) -> dict[str, Any]:
    """Every figure. Rates without a role are the sum of both: their processes run at the same time."""
    sampling, training = follow.sampling.per_second(), training_per_second(follow.steps())
    spec = follow.settings.spec()
    return {
        "verdict": outcome.verdict(follow.settings.llm),
        "steps_live": len(outcome.live),
        "steps_dead": len(outcome.dead),
        "dead": {str(step): list(roles) for step, roles in outcome.dead.items()},
        "rollouts_per_group": spec.rollouts_per_group,
        "groups_per_step": spec.groups_per_step,
        "sampled_tokens": sum(follow.sampling.tokens.values()),
        "sampling_tokens_per_s": round(sum(sampling.values()), 2),
        **{f"sampling_tokens_per_s_{role}": rate for role, rate in sampling.items()},
        "training_tokens_per_s": round(sum(training.values()), 2),
        **{f"training_tokens_per_s_{role}": rate for role, rate in training.items()},
        "peak_rss_gib": round(peak / GIB, 2),
        "minutes": round(seconds / 60, 2),
        "seconds": {stage: round(value, 1) for stage, value in stages.items()},
    }


def show(console: Console, summary: Mapping[str, Any]) -> None:
    """The table and the verdict; the JSON is one line, however wide the terminal."""
    table = Table(title="the run", show_header=False, title_justify="left")
    table.add_column(style="dim")
    table.add_column()
    for name, value in summary.items():
        if name != "verdict" and value != {}:
            table.add_row(name.replace("_", " "), _text(value))
    console.print(table)
    console.print(summary["verdict"], style="bold", soft_wrap=True, highlight=False)
    print(json.dumps(summary), flush=True)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(of_key)}" for key, of_key in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
