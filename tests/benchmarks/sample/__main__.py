"""`make bench-sample`: 1, 8 and 64 conversations of three turns at once, by our sampler and by others, in turn.

`generate` takes one conversation after another, `static` all of them as one batch, turn by turn; vLLM where its
environment is there (`make bench-env`, or $TANDEM_VLLM_PYTHON). `mixed`: prompts differ in length. Last, one line of
JSON; where several models are measured, its ratios are of the worst.

shape.py   models and conversations
sides.py   who samples them
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from shared.policy.processes import SamplerProcess, cores
from shared.policy.sampler import TransformersSampler
from shared.policy.vllm.sampler import VllmSampler
from tests.benchmarks.environments import python
from tests.benchmarks.sample.shape import CONCURRENCY, SHAPES, TURNS, Shape, build, conversations
from tests.benchmarks.sample.sides import Generate, Served, Side, config

Rates = dict[str, float]
MOST = max(CONCURRENCY)


def main() -> None:
    """Measure each model of the shape, and print."""
    parser = argparse.ArgumentParser(prog="make bench-sample", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one small model and shorter turns, under 45 s in all")
    parser.add_argument("--shape", choices=SHAPES, default="full")
    parser.add_argument("--without-vllm", action="store_true", help="as if its environment were not there")
    arguments = parser.parse_args()
    shape = SHAPES["quick" if arguments.quick else arguments.shape]
    torch.set_num_threads(cores())
    vllm = None if arguments.without_vllm or arguments.quick else _vllm_python()
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        rates = {model: asyncio.run(_measure(model, shape, vllm, progress)) for model in shape.models}
    _report(shape, rates)


def _vllm_python() -> Path | None:
    found = Path(os.environ.get("TANDEM_VLLM_PYTHON") or python("vllm"))
    return found if found.is_file() else None


async def _measure(model: str, shape: Shape, vllm: Path | None, progress: Progress) -> Rates:
    """Tokens per second of each side at each concurrency, medians; the sides take turns."""
    taken: defaultdict[str, list[float]] = defaultdict(list)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tandem-bench-")))
        net = build(model, folder / "model")
        sides: dict[str, Side] = {"static": Generate(net, batched=True), "generate": Generate(net, batched=False)}
        sides["ours"] = Served(await stack.enter_async_context(_served(folder, None)))
        if vllm:
            sides["vllm"] = Served(await stack.enter_async_context(_served(folder, vllm)))
        runs = [(name, count, mixed) for mixed in (False, True) for count in CONCURRENCY for name in sides]
        runs = [run for run in runs if run[0] != "generate" or run[1] == 1]  # it has no concurrency
        task = progress.add_task(model, total=len(runs) * (shape.repeats + 1))
        for repeat in range(shape.repeats + 1):
            for name, count, mixed in runs:
                progress.update(task, description=f"{model}: {name}, {count} at once")
                turns = conversations(model, shape, max(count, shape.alone), mixed=mixed, seed=repeat)
                if repeat or shape.repeats > 1 or count == 1:  # the first is to warm up
                    rate = await _rate(sides[name], turns, count, shape.new)
                    taken[f"{name}_{count}{'_mixed' * mixed}"] += [rate] if repeat else []
                progress.advance(task)
    return {name: statistics.median(values) for name, values in taken.items()}


async def _rate(side: Side, turns: list[list[list[int]]], count: int, new: int) -> float:
    started = time.perf_counter()
    for first in range(0, len(turns), count):
        await side.run(turns[first : first + count], new)
    return len(turns) * TURNS * new / (time.perf_counter() - started)


@asynccontextmanager
async def _served(folder: Path, vllm: Path | None) -> AsyncGenerator[SamplerProcess]:
    settings = config(folder / "model", cores(), vllm)
    if settings.vllm:
        sampler = await VllmSampler.spawn(settings, settings.vllm, folder / "vllm", folder, cores())
    else:
        sampler = await TransformersSampler.spawn(settings, folder / "sampler.log", cores())
    try:
        await sampler.ready()
        yield sampler
    finally:
        await sampler.close()


def _ratios(rates: Rates) -> dict[str, float | None]:
    ours, mixed = rates[f"ours_{MOST}"], rates[f"ours_{MOST}_mixed"]
    return {
        "speedup_64_vs_generate": min(ours / rates["generate_1"], mixed / rates["generate_1_mixed"]),
        "speedup_64_vs_static": ours / rates[f"static_{MOST}"],
        "speedup_64_vs_static_mixed": mixed / rates[f"static_{MOST}_mixed"],
        "vs_vllm": ours / rates[f"vllm_{MOST}"] if f"vllm_{MOST}" in rates else None,
    }


def _report(shape: Shape, rates: dict[str, Rates]) -> None:
    """Print the table and, last, the line."""
    table = Table(title=f"sampled tokens/s, three-turn conversations, shape {shape.name}")
    table.add_column("side, conversations at once")
    for model in rates:
        table.add_column(model, justify="right")
    ratios = {model: _ratios(found) for model, found in rates.items()}
    for name in next(iter(rates.values())):
        table.add_row(name, *(f"{found[name]:,.0f}" for found in rates.values()))
    for name in next(iter(ratios.values())):
        cells = (found[name] for found in ratios.values())
        table.add_row(name, *("" if cell is None else f"{cell:.2f}" for cell in cells))
    Console().print(table)
    worst = {
        name: min((r[name] for r in ratios.values() if r[name] is not None), default=None) for name in _names(ratios)
    }
    line = {name: None if value is None else round(value, 3) for name, value in worst.items()}
    tokens = {model: {name: round(value, 1) for name, value in found.items()} for model, found in rates.items()}
    shown = {"name": shape.name, "prompt": shape.prompt, "new": shape.new, "repeats": shape.repeats}
    print(json.dumps(line | {"tokens_per_s": tokens, "threads": cores(), "shape": shown}))


def _names(ratios: dict[str, dict[str, float | None]]) -> list[str]:
    return list(next(iter(ratios.values())))


if __name__ == "__main__":
    main()
