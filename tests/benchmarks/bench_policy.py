"""Sampler and trainer of a demo-sized model against plain static code: `python tests/benchmarks/bench_policy.py`.

Both sides run in turn on one thread; medians of CPU time, which a busy machine disturbs least.
The last line is JSON.
"""

import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from shared.policy.batches import Example
from shared.policy.config import PolicyConfig, TrainerConfig
from shared.policy.sampler import TransformersSampler
from shared.policy.sampling import Prompt, sample
from shared.policy.training import Trainer
from shared.policy.types import SamplingParams

VOCABULARY, STOP, NEW = 1206, 4, 4
ROUNDS = 9
TURNS = (6, 17, 40)
"""Prompt tokens of an executor's three turns in the demo; a few more or fewer in each row."""


def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    shape = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=128, tie_word_embeddings=True, **shape)
    return LlamaForCausalLM(config).eval()


def prompts(rng: random.Random, rows: int, lengths: tuple[int, ...]) -> list[list[int]]:
    return [
        [rng.randrange(5, VOCABULARY) for _ in range(rng.choice(lengths) + rng.randrange(-2, 3))] for _ in range(rows)
    ]


@torch.no_grad()
def plain_generate(net: LlamaForCausalLM, rows: list[list[int]]) -> None:
    """A left-padded static batch with a cache, two-dimensional mask and torch.multinomial, as most write it."""
    longest = max(map(len, rows))
    tokens = torch.tensor([[0] * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    cache, position = DynamicCache(), (mask.cumsum(1) - 1).clamp(min=0)
    done = torch.zeros(len(rows), dtype=torch.bool)
    for _ in range(NEW):
        hidden = net.model(input_ids=tokens, attention_mask=mask, position_ids=position, cache=cache, use_cache=True)
        logprobs = net.lm_head(hidden.last_hidden_state[:, -1]).log_softmax(-1)
        tokens = torch.multinomial(logprobs.exp(), 1)
        done |= tokens[:, 0] == STOP
        if done.all():
            break
        position, mask = position[:, -1:] + 1, torch.cat([mask, torch.ones(len(rows), 1, dtype=torch.long)], 1)


def plain_step(net: LlamaForCausalLM, rows: list[Example]) -> None:
    """One padded batch with every logit, as most write it."""
    longest = max(len(row.token_ids) for row in rows)
    tokens = torch.tensor([row.token_ids + [0] * (longest - len(row.token_ids)) for row in rows])
    mask = torch.tensor([row.mask + [0] * (longest - len(row.mask)) for row in rows])[:, 1:]
    old = torch.tensor([row.logprobs + [0.0] * (longest - len(row.logprobs)) for row in rows])[:, 1:]
    advantage = torch.tensor([[row.advantage * row.multiplicity] for row in rows])
    new = net(tokens).logits[:, :-1].log_softmax(-1).gather(2, tokens[:, 1:, None])[..., 0]
    rho = ((new - old) * mask).exp()
    surrogate = torch.minimum(rho * advantage, rho.clamp(0.8, 1.28) * advantage) * mask
    (-(surrogate.sum(1) / mask.sum(1)).sum() / sum(row.multiplicity for row in rows)).backward()


def medians(clock: Callable[[], float], **sides: Callable[[], object]) -> dict[str, float]:
    """Seconds of each side, taken in turn so that a noisy machine is noisy to all."""
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(ROUNDS + 1):
        for name, run in sides.items():
            started = clock()
            run()
            taken[name].append(clock() - started)
    return {name: statistics.median(seconds[1:]) for name, seconds in taken.items()}


def bench_sampling(net: LlamaForCausalLM) -> dict[str, float]:
    rng, result = random.Random(0), {}
    shapes = {"equal": (40,), "mixed": TURNS, "spread": tuple(range(10, 80))}
    for name, lengths in shapes.items():
        rows = prompts(rng, 64, lengths)
        requests = [Prompt(row, NEW, frozenset({STOP})) for row in rows]
        seconds = medians(
            time.process_time,
            plain=lambda rows=rows: plain_generate(net, rows),
            ours=lambda requests=requests: sample(net, requests, 1.0),
        )
        result |= {f"sample_64_{name}_{side}_ms": 1000 * value for side, value in seconds.items()}
        result[f"speedup_64_{name}"] = seconds["plain"] / seconds["ours"]
    return result


async def bench_child(net: LlamaForCausalLM) -> dict[str, float]:
    """64 three-turn conversations at once, each on its own, against the same turns in step and in process."""
    rng = random.Random(1)
    conversations = [[prompts(rng, 1, (length,))[0] for length in TURNS] for _ in range(64)]
    params = SamplingParams(NEW, 1.0, (STOP,))
    with tempfile.TemporaryDirectory() as folder:
        net.save_pretrained(folder)
        config = PolicyConfig(model=Path(folder), device="cpu", threads=1)
        sampler = await TransformersSampler.spawn(config, Path(folder) / "sampler.log", 1)
        await sampler.ready()

        async def converse(turns: list[list[int]]) -> None:
            for turn in turns:
                await sampler.generate(turn, params)

        (worker,) = (process for process in psutil.Process().children() if "sampler" in process.cmdline())
        child, parent, plain, before = [], [], [], await sampler.statistics()
        for _ in range(ROUNDS):
            started, child_started = time.process_time(), sum(worker.cpu_times()[:2])
            await asyncio.gather(*map(converse, conversations))
            parent.append(time.process_time() - started)
            child.append(sum(worker.cpu_times()[:2]) - child_started)
            started = time.process_time()
            for turn in range(len(TURNS)):
                plain_generate(net, [turns[turn] for turns in conversations])
            plain.append(time.process_time() - started)
        after = await sampler.statistics()
        await sampler.close()
    batches = (after["batches"] - before["batches"]) / ROUNDS
    return {
        "conversations_64_plain_in_step_ms": 1000 * statistics.median(plain),
        "conversations_64_child_ms": 1000 * statistics.mean(child),
        "conversations_64_parent_ms": 1000 * statistics.median(parent),
        "conversations_64_child_batches": batches,
    }


def bench_training(net: LlamaForCausalLM) -> dict[str, float]:
    rng = random.Random(2)
    rows = []
    for i in range(100):
        length = rng.randrange(24, 60)
        mask = [0] * 6 + [int(j % 10 < 3) for j in range(length - 6)]
        ids = [rng.randrange(5, VOCABULARY) for _ in range(length)]
        rows.append(Example(f"t{i:03}", ids, mask, [-7.0 * m for m in mask], rng.uniform(-1, 1), rng.randrange(1, 4)))

    def ours(budget: int) -> Callable[[], object]:
        trainer = Trainer(net, TrainerConfig(micro_batch_tokens=budget), total_steps=10)
        return lambda: trainer.accumulate(rows, 1)

    budgets = {f"budget_{budget}": ours(budget) for budget in (512, 1024, 2048, 4096, 8192)}
    seconds = medians(time.process_time, plain=lambda: plain_step(net, rows), **budgets)
    return {f"train_100_rows_{name}_ms": 1000 * value for name, value in seconds.items()}


def main() -> None:
    torch.set_num_threads(1)
    net = model()
    result = bench_sampling(net) | bench_training(net) | asyncio.run(bench_child(net))
    for name, value in result.items():
        print(f"{name:40} {value:8.2f}")
    print(json.dumps({name: round(value, 3) for name, value in result.items()}))


if __name__ == "__main__":
    main()
