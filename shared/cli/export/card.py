"""The model card of an exported checkpoint: what it is, how it was trained, what was measured in its last step."""

from pathlib import Path
from typing import Any

import tomli_w

from shared.config import read_toml
from shared.errors import UserError

METRICS = (
    "reward_mean",
    "correct_mean",
    "expert_mean",
    "format_mean",
    "groups_dead",
    "kl",
    "clip_fraction",
    "gap_mean",
    "staleness_mean",
    "learning_rate",
)
TEXT = """---
library_name: transformers
pipeline_tag: text-generation
tags: [tandem, m-grpo, {role}]
# license: yours to choose, within what the base model's license allows
---

# {title}

The **{role}** of run `{run}`, after step {step} ({updates} optimiser steps). It was co-trained with its {other} by
Tandem with M-GRPO ([arXiv 2511.13288](https://arxiv.org/abs/2511.13288)).

| | |
| --- | --- |
| base | `{base}` |
| architecture | `{architecture}` |
| role | {role} |
| run | `{run}` |
| step, optimiser steps | {step}, {updates} |
| algorithm | M-GRPO |
| SHA-256 of the weights | `{checksum}` |

It speaks its role's action protocol: it is at its best with the other role, and with the environment's instructions.

## Load

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("{title}")
tokenizer = AutoTokenizer.from_pretrained("{title}")
```

## Settings

{settings}

## Metrics of step {step}

{metrics}

## License

Not chosen yet. The base model's license applies to what is derived from it.
"""


def card(checkpoint: Path, meta: dict[str, Any], config: dict[str, Any]) -> str:
    """The text of README.md. Settings are those of the server in whose folder the checkpoint lies."""
    settings = _settings(checkpoint.resolve().parent.parent / "config.toml")
    policy = settings.get("policy", {})
    role = meta["role"]
    return TEXT.format(
        title=f"{meta['run']}-{role}-step-{meta['step']}",
        role=role,
        other="executor" if role == "planner" else "planner",
        run=meta["run"],
        step=meta["step"],
        updates=meta["updates"],
        checksum=meta["checksum"],
        base=_base(policy),
        architecture=", ".join(config.get("architectures") or ["unknown"]),
        settings=_code(settings) if policy else "Not known: the checkpoint was not in its server's folder.",
        metrics=_metrics(meta["pending_ack"].get("statistics", {})),
    )


def _settings(file: Path) -> dict[str, Any]:
    try:
        return read_toml(file)
    except UserError:
        return {}


def _base(policy: dict[str, Any]) -> str:
    """The name of the folder that the run started from, without where it lies."""
    return Path(policy["model"]).name if policy.get("model") else "unknown"


def _code(settings: dict[str, Any]) -> str:
    """What the weights depend on; no address, no path and no name of a machine."""
    policy = settings["policy"]
    kept = {key: policy[key] for key in ("dtype", "temperature", "trainer") if key in policy}
    shown = {"policy": kept} | {key: settings[key] for key in ("limits",) if key in settings}
    return f"```toml\nenvironment = {str(settings.get('environment', 'unknown'))!r}\n{tomli_w.dumps(shown)}```"


def _metrics(statistics: dict[str, float]) -> str:
    rows = [f"| {name} | {statistics[name]:.4g} |" for name in METRICS if name in statistics]
    return "\n".join(["| metric | value |", "| --- | --- |", *rows]) if rows else "None were recorded."
