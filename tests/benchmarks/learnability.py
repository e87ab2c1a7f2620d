"""Does M-GRPO mend a warmed-up pair? Both roles in one process: the real agents, rewards, alignment and trainers, no
servers and no staleness. It takes two or three minutes on one core, and prints its figures as JSON.

    python tests/benchmarks/learnability.py PLANNER_FOLDER EXECUTOR_FOLDER [--steps 100] [--seed 11] [--arm cotrain]

With `--option hops=4` and the like it is another setting of atlas; to choose one, `--validation-only`.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from executor_server.alignment import align
from shared.agents.chat import ChatFormat
from shared.agents.limits import Limits
from shared.agents.loop import Episode, run_agent
from shared.agents.toolbox import Toolbox
from shared.config import override
from shared.environments.atlas import Atlas
from shared.environments.base import Split, Task, ToolContext, ToolResult, Trace
from shared.mgrpo.advantages import group_advantages
from shared.mgrpo.rewards import correct_main, executor_reward, planner_reward
from shared.policy.batches import Example
from shared.policy.config import TrainerConfig
from shared.policy.model import load_model
from shared.policy.sampling import Prompt, sample
from shared.policy.tokenizer import load_tokenizer
from shared.policy.training import Trainer
from shared.policy.types import Completion, SamplingParams
from shared.policy.warmup.lockstep import VERSION
from shared.schemas.run import ExecutorReward, PlannerReward

GROUPS, K = 8, 8
IDLE_TURNS = 12
"""Turns of the event loop without a new request after which a batch is sampled: longer than any tool takes here."""


@dataclass(slots=True)
class Request:
    """A turn that is waited for."""

    prompt: Prompt
    temperature: float
    answer: asyncio.Future[Completion]


class RestingSampler:
    """Samples all that waits once the event loop has come to rest."""

    def __init__(self, model, seed: int) -> None:
        self.model = model
        self._generator = torch.Generator().manual_seed(seed)
        self._waiting: list[Request] = []
        self._idle = 0

    async def generate(self, prompt_ids, params: SamplingParams, *, checkpoint=None) -> Completion:
        prompt = Prompt(list(prompt_ids), params.max_new_tokens, frozenset(params.stop_ids))
        request = Request(prompt, params.temperature, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        self._idle = 0
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._tick)
        return await request.answer

    def _tick(self) -> None:
        self._idle += 1
        if self._idle < IDLE_TURNS:
            asyncio.get_running_loop().call_soon(self._tick)
            return
        batch, self._waiting = self._waiting, []
        turns = sample(self.model, [r.prompt for r in batch], batch[0].temperature, self._generator)
        for request, turn in zip(batch, turns, strict=True):
            request.answer.set_result(Completion(turn.token_ids, turn.logprobs, VERSION, turn.finish))


@dataclass(slots=True)
class Invocation:
    """One executor episode and its expert score, None where its format is invalid."""

    episode: Episode
    expert: float | None


@dataclass(slots=True)
class Rollout:
    """One planner episode with what it delegated."""

    task: Task
    split: Split
    temperature: float
    invocations: list[Invocation] = field(default_factory=list)
    episode: Episode | None = None
    correct: float = 0.0


class Pair:
    """Planner and executor over one environment."""

    def __init__(self, atlas: Atlas, planner: Path, executor: Path, seed: int) -> None:
        self.atlas = atlas
        self.d_max = atlas.habits.most_calls
        self._limits = {
            "planner": Limits(max_turns=self.d_max + 1, max_calls=self.d_max, max_new_tokens=8, max_context_tokens=120),
            "executor": Limits(max_turns=4, max_calls=4, max_new_tokens=8, max_context_tokens=120),
        }
        folders = {"planner": planner, "executor": executor}
        self.models = {role: load_model(folder, torch.device("cpu")) for role, folder in folders.items()}
        self.chats = {role: ChatFormat(load_tokenizer(folder)) for role, folder in folders.items()}
        self.samplers = {role: RestingSampler(self.models[role], seed + i) for i, role in enumerate(folders)}
        self._tools = Toolbox(atlas.tools())
        self._delegate = Toolbox({"delegate": self._invoke})

    async def roll_out(self, tasks: Sequence[Task], split: Split, temperature: float) -> list[Rollout]:
        """One rollout for each of `tasks`, all at once."""
        return await asyncio.gather(*(self._planner(Rollout(task, split, temperature)) for task in tasks))

    async def _planner(self, rollout: Rollout) -> Rollout:
        toolbox = self._delegate.bound(rollout)
        rollout.episode = await self._episode("planner", toolbox, rollout.task.query, rollout.temperature)
        if rollout.episode.answer is not None:
            rollout.correct = self.atlas.correctness(rollout.task, rollout.episode.answer)
        return rollout

    async def _invoke(self, context: Rollout, task: str) -> ToolResult:
        tools = self._tools.bound(ToolContext(context.split, context.task.id, task))
        episode = await self._episode("executor", tools, task, context.temperature)
        trace = Trace(task, episode.calls, episode.answer or "", context.split)
        expert = self.atlas.expert_score(trace) if episode.r_format else None
        context.invocations.append(Invocation(episode, expert))
        return ToolResult(episode.status if episode.r_format else "error", episode.answer or "")

    async def _episode(self, role, toolbox: Toolbox, user: str, temperature: float) -> Episode:
        limits = self._limits[role]
        params = SamplingParams(max_new_tokens=limits.max_new_tokens, temperature=temperature)
        sampler, chat = self.samplers[role], self.chats[role]
        return await run_agent(sampler, chat, toolbox, system="", user=user, limits=limits, params=params)


def example(name: str, episode: Episode, advantage: float, multiplicity: float, dead: bool) -> Example:
    """A trainer's row."""
    return Example(name, episode.token_ids, episode.mask, episode.logprobs, advantage, multiplicity, dead)


def planner_examples(groups: Sequence[Sequence[Rollout]]) -> list[Example]:
    """The rows of all groups."""
    rows = []
    for g, group in enumerate(groups):
        rewards = [planner_reward(r.episode.r_format, r.correct, PlannerReward()) for r in group]
        baseline = group_advantages(rewards)
        for k, (rollout, advantage) in enumerate(zip(group, baseline.advantages, strict=True)):
            rows.append(example(f"{g}-{k}", rollout.episode, advantage, 1.0, baseline.dead))
    return rows


def executor_examples(
    groups: Sequence[Sequence[Rollout]], d_max: int, seed: int, step: int
) -> tuple[list[Example], Counter]:
    """The aligned rows of all groups, and what alignment counted."""
    rows, counts = [], Counter()
    for g, group in enumerate(groups):
        ids = {f"{g}-{k}": [f"{g}-{k}-{d}" for d in range(len(r.invocations))] for k, r in enumerate(group)}
        invocations = {f"{g}-{k}-{d}": (r, c) for k, r in enumerate(group) for d, c in enumerate(r.invocations)}
        aligned = align(ids, d_max=d_max, mode="copies", run_seed=seed, group_id=f"{step}-{g}")
        kept = {name: weight for name, weight in aligned.multiplicity.items() if weight}
        rewards = []
        for name in kept:
            rollout, invocation = invocations[name]
            shared = correct_main(rollout.episode.r_format, rollout.correct)
            rewards.append(executor_reward(invocation.episode.r_format, shared, invocation.expert, ExecutorReward()))
        baseline = group_advantages(rewards, list(kept.values()))
        for (name, weight), advantage in zip(kept.items(), baseline.advantages, strict=True):
            rows.append(example(name, invocations[name][1].episode, advantage, weight, baseline.dead))
        counts += Counter(copied=aligned.copied, masked=aligned.masked, distinct=aligned.distinct)
    return rows, counts


def update(trainer: Trainer, rows: list[Example], step: int) -> None:
    """One optimiser step, if any row is live."""
    if rows and trainer.accumulate(rows, step) is not None:
        trainer.apply(step)


def train(pair: Pair, steps: int, seed: int, arm: str) -> float:
    """M-GRPO on the train split; returns the processor's seconds a step."""
    config = TrainerConfig(lr=1e-3)
    trainers = {role: Trainer(model, config, total_steps=steps) for role, model in pair.models.items()}
    started, smoothed = time.process_time(), 0.0
    for step in range(1, steps + 1):
        tasks = [pair.atlas.task("train", seed, (step - 1) * GROUPS + g) for g in range(GROUPS)]
        rollouts = asyncio.run(pair.roll_out([task for task in tasks for _ in range(K)], "train", 1.0))
        groups = [rollouts[g * K : (g + 1) * K] for g in range(GROUPS)]
        planner_rows = planner_examples(groups)
        executor_rows, counts = executor_examples(groups, pair.d_max, seed, step)
        update(trainers["planner"], planner_rows, step)
        if arm == "cotrain":
            update(trainers["executor"], executor_rows, step)
        success = sum(r.correct for r in rollouts) / len(rollouts)
        smoothed = success if step == 1 else 0.9 * smoothed + 0.1 * success
        if step == 1 or step % 10 == 0:
            calls = Counter(len(r.invocations) for r in rollouts)
            dead = [len({r.trajectory.split("-")[0] for r in rows if r.dead}) for rows in (planner_rows, executor_rows)]
            line = {"step": step, "success": smoothed, "dead_planner": dead[0], "dead_executor": dead[1], **counts}
            print(json.dumps(line | {"calls": [calls[d] for d in range(pair.d_max + 1)]}), flush=True)
    return (time.process_time() - started) / steps


def evaluate(pair: Pair, split: Split, n: int, temperature: float) -> dict:
    """Success on the first `n` tasks of `split`, by hops, and both formats."""
    tasks = [pair.atlas.task(split, 123, index) for index in range(n)]
    rollouts = asyncio.run(pair.roll_out(tasks, split, temperature))
    invocations = [c for r in rollouts for c in r.invocations]
    by_hops: dict[int, list[float]] = {}
    for rollout in rollouts:
        by_hops.setdefault(rollout.task.metadata["hops"], []).append(rollout.correct)
    return {
        "accuracy": mean(r.correct for r in rollouts),
        "by_hops": {hops: mean(of) for hops, of in sorted(by_hops.items())},
        "planner_format": mean(r.episode.r_format for r in rollouts),
        "executor_format": mean(c.episode.r_format for c in invocations),
        "expert": mean(c.expert or 0.0 for c in invocations),
        "calls": mean(len(r.invocations) for r in rollouts),
    }


def mean(values: Iterable[float]) -> float | None:
    """None where there is none: a pair that was hardly warmed up may make no call at all."""
    listed = list(values)
    return round(sum(listed) / len(listed), 3) if listed else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("planner", type=Path)
    parser.add_argument("executor", type=Path)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--arm", choices=("cotrain", "frozen"), default="cotrain")
    parser.add_argument("--tasks", type=int, default=400)
    parser.add_argument("--option", action="append", default=[], help="of the environment, name=value")
    parser.add_argument("--validation-only", action="store_true", help="look at no test task")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    pair = Pair(Atlas(**override({}, arguments.option)), arguments.planner, arguments.executor, arguments.seed)
    before = {role: {k: v.clone() for k, v in model.state_dict().items()} for role, model in pair.models.items()}
    splits: tuple[Split, ...] = ("validation",) if arguments.validation_only else ("validation", "test")
    for split in splits:
        for temperature in (1.0, 0.0):
            figures = evaluate(pair, split, arguments.tasks, temperature)
            print(json.dumps({"before": split, "temperature": temperature, **figures}), flush=True)
    if not arguments.steps:
        return
    seconds = train(pair, arguments.steps, arguments.seed, arguments.arm)
    print(json.dumps({"cpu_seconds_per_step": round(seconds, 3)}), flush=True)
    after = {role: {k: v.clone() for k, v in model.state_dict().items()} for role, model in pair.models.items()}
    states = {0: before, 1: after}
    for temperature in (1.0, 0.0):
        for p in (0, 1):
            for e in (0, 1):
                pair.models["planner"].load_state_dict(states[p]["planner"])
                pair.models["executor"].load_state_dict(states[e]["executor"])
                figures = evaluate(pair, splits[-1], arguments.tasks, temperature)
                print(json.dumps({"cell": f"P{p}E{e}", "temperature": temperature, **figures}), flush=True)


if __name__ == "__main__":
    main()
