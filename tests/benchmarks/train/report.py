"""The figures: medians of the repeats and their ratios, a table for people, and one line of JSON for machines."""

import json
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from tests.benchmarks.train.measure import Measured
from tests.benchmarks.train.shape import Shape

HEADLINES = ("tokens_per_s", "speedup_vs_trl", "memory_vs_trl")
"""What is null of a part that a shape leaves out, beside the reason."""


def figures(measured: Measured) -> dict[str, float | None]:
    """What one part came to, by medians; None where the shape leaves a side out.

    `_checkpointed`: ours with gradient checkpointing, as TRL has it; `_unchecked`: TRL without.
    `copy_share`: how much of the limit, `copy_ratio`, is reached. `memory_vs_`: our peak above the floor, by theirs.
    `cpu_`: the same ratio of processor seconds.
    """
    counts = measured.counts
    copies, limit = measured.speedup("copies"), counts["tokens"] / counts["distinct_tokens"]
    return {
        "tokens_per_s": counts["distinct_tokens"] / measured.median("ours", "seconds"),
        "copy_ratio": limit,
        "speedup_vs_copies": copies,
        "copy_share": copies and copies / limit,
        "speedup_vs_hand_written": measured.speedup("handwritten"),
        "speedup_vs_trl": measured.speedup("trl"),
        "memory_vs_trl": measured.memory("trl"),
        "speedup_vs_trl_checkpointed": measured.speedup("trl", ours="ours-checkpointed"),
        "memory_vs_trl_checkpointed": measured.memory("trl", ours="ours-checkpointed"),
        "speedup_vs_trl_unchecked": measured.speedup("trl-unchecked"),
        "memory_vs_trl_unchecked": measured.memory("trl-unchecked"),
        "memory_vs_hand_written": measured.memory("handwritten"),
        "cpu_speedup_vs_copies": measured.speedup("copies", "cpu_seconds"),
        "cpu_speedup_vs_hand_written": measured.speedup("handwritten", "cpu_seconds"),
        "cpu_speedup_vs_trl": measured.speedup("trl", "cpu_seconds"),
        "max_loss_difference": measured.loss_difference("ours-checkpointed", "copies", "handwritten"),
        "trl_loss_difference": measured.loss_difference("trl", "trl-unchecked"),
    }


def report(shape: Shape, threads: int, small: Measured | None, smollm2: Measured | None) -> None:
    """Print the tables and, last, the line; the keys of SmolLM2 begin with its name."""
    line: dict[str, object] = {}
    for prefix, title, measured in (("", "a model of 1M parameters", small), ("smollm2_", "SmolLM2-135M", smollm2)):
        if measured:
            _table(f"{title}, shape {shape.name}", measured)
        found = figures(measured) if measured else dict.fromkeys(HEADLINES)
        line |= {prefix + name: value and round(value, 8) for name, value in found.items()}
        if not measured:
            line[prefix + "left_out"] = f"the shape {shape.name} has no part on {title}: --shape full has"
    batches = {"small_batch": small and small.counts, "smollm2_batch": smollm2 and smollm2.counts}
    print(json.dumps(line | {"shape": asdict(shape) | batches | {"threads": threads}}))


def _table(title: str, measured: Measured) -> None:
    table = Table(
        title=f"{title}: {measured.counts['distinct_rows']} rows, {measured.counts['distinct_tokens']} tokens"
    )
    for column in ("side", "step, s", "CPU s", "distinct tokens/s", "MiB above floor", "loss", "gradient norm"):
        table.add_column(column, justify="left" if column == "side" else "right")
    for name, steps in measured.steps.items():
        seconds, cpu = measured.median(name, "seconds"), measured.median(name, "cpu_seconds")
        rate, above = measured.counts["distinct_tokens"] / seconds, measured.median(name, "bytes_above") / 2**20
        times = (f"{seconds:.2f}", f"{cpu:.2f}", f"{rate:,.0f}", f"{above:,.0f}")
        table.add_row(name, *times, f"{steps[0].loss:.7f}", f"{steps[0].gradient_norm:.5f}")
    Console().print(table)
