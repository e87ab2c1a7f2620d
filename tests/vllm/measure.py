"""`python -m tests.vllm.measure`: vLLM with a tiny model on a CPU: its start, new weights, tokens a second, the gap."""

import asyncio
import json
import tempfile
import time
from argparse import ArgumentParser
from pathlib import Path

from rich.console import Console
from rich.table import Table

from shared.policy.config import PolicyConfig
from shared.policy.types import SamplingParams
from shared.policy.vllm.config import VllmConfig
from shared.policy.vllm.probe import gaps
from shared.policy.vllm.sampler import INITIAL, VllmSampler
from tests.benchmarks.environments import environment, python
from tests.unit.policy.sampler_contract import full_logprobs, prompts
from tests.unit.policy.tiny import build_model, save_model

CONCURRENT = (1, 8, 64)
TOKENS = 64
REPEATS = 3
LOADS = 5


async def _measure(folder: Path) -> dict[str, float]:
    environment("vllm")
    vllm = VllmConfig(python=python("vllm"), arguments=("--enforce-eager",))
    model = save_model(folder / "model")
    config = PolicyConfig(model=model, device="cpu", threads=1, sampler="vllm", vllm=vllm, cache_mib=512)
    started = time.perf_counter()
    sampler = await VllmSampler.spawn(config, vllm, folder / "weights", folder, 1)
    try:
        await sampler.ready()
        figures = {"start_s": time.perf_counter() - started}
        figures |= {f"tokens_per_s_{n}": await _rate(sampler, n) for n in CONCURRENT}
        started = time.perf_counter()
        for _ in range(LOADS):
            await sampler.load_weights(model, INITIAL)
        return figures | {"load_s": (time.perf_counter() - started) / LOADS} | await _gap(sampler)
    finally:
        await sampler.close()


async def _rate(sampler: VllmSampler, concurrent: int) -> float:
    """The best of some repeats, as the others meet what else the machine does."""
    rows, rates = prompts([32] * concurrent), []
    for _ in range(REPEATS):
        started = time.perf_counter()
        await asyncio.gather(*(sampler.generate(row, SamplingParams(TOKENS)) for row in rows))
        rates.append(concurrent * TOKENS / (time.perf_counter() - started))
    return max(rates)


async def _gap(sampler: VllmSampler) -> dict[str, float]:
    model, rows = build_model(), prompts([32] * 64)
    turns = await asyncio.gather(*(sampler.generate(row, SamplingParams(TOKENS)) for row in rows))
    expected = [full_logprobs(model, row, turn.token_ids) for row, turn in zip(rows, turns, strict=True)]
    mean, largest = gaps([x for turn in turns for x in turn.logprobs], [x for row in expected for x in row])
    return {"gap_mean": mean, "gap_max": largest}


def main() -> None:
    """Measure, and print a table and a line of JSON."""
    ArgumentParser("tests.vllm.measure", description=__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="tandem-vllm-") as folder:
        figures = asyncio.run(_measure(Path(folder)))
    table = Table("vLLM, tiny model, CPU", "")
    for name, value in figures.items():
        table.add_row(name, f"{value:.3g}")
    Console().print(table)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
