"""What a warmed-up model must hold before reinforcement learning, measured on validation tasks."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping

import torch
from transformers import PreTrainedModel

from shared.agents.chat import ChatFormat
from shared.agents.loop import Episode, run_agent
from shared.agents.toolbox import Toolbox
from shared.environments.base import Environment, Split, ToolContext, ToolResult
from shared.policy.logprobs import trained_logprobs
from shared.policy.types import Sampler, SamplingParams
from shared.policy.warmup.conversation import Row
from shared.policy.warmup.curriculum import Curriculum
from shared.policy.warmup.lockstep import LockstepSampler
from shared.policy.warmup.loop import collate, count_sure
from shared.schemas.base import Role

EPISODES = 200
LOOKUP_ROWS = 128


async def delegate(context: Callable[[Split, str], ToolResult], task: str) -> ToolResult:
    """Give a subtask to the executor, which has tools; its answer comes back."""
    return context("validation", task)


DELEGATE = Toolbox({"delegate": delegate})
"""As the planner server describes it, with a curriculum's perfect partner behind it."""


def measure(
    model: PreTrainedModel, chat: ChatFormat, environment: Environment, role: Role, curriculum: Curriculum, seed: int
) -> dict[str, float]:
    """`lookup`: share of names found; `format`: share of episodes whose format is valid at temperature 1.

    A figure for which the curriculum has no means is left out. `correct` and `turns` are for the reader, not gates.
    """
    figures: dict[str, float] = {}
    if curriculum.lookup is not None:
        rng = random.Random(f"lookup/{seed}")
        figures["lookup"] = lookup(model, [curriculum.lookup(rng) for _ in range(LOOKUP_ROWS)])
    runs = _planner_runs if role == "planner" else _executor_runs
    episodes = runs(chat, environment, curriculum, seed)
    if episodes:
        figures |= asyncio.run(_format(model, episodes, seed))
    return figures


def faults(figures: Mapping[str, float], thresholds: Mapping[str, float]) -> list[str]:
    """What of `thresholds` does not hold, in words."""
    return [
        f"{name} {figures[name]:.3f}, at least {least:g} is needed"
        for name, least in thresholds.items()
        if figures[name] < least
    ]


@torch.inference_mode()
def lookup(model: PreTrainedModel, rows: list[Row]) -> float:
    """Share of the rows' learned tokens that the model gives more than half of the probability."""
    tokens, learned = collate(rows, model.device)
    return count_sure(trained_logprobs(model, tokens, learned, temperature=1.0), learned) / int(learned.sum())


EpisodeRun = Callable[[Sampler], Awaitable[tuple[Episode, float | None]]]


async def _format(model: PreTrainedModel, episodes: list[EpisodeRun], seed: int) -> dict[str, float]:
    results = await LockstepSampler(model, seed).run(episodes)
    correct = [value for _, value in results if value is not None]
    return {
        "format": sum(episode.r_format for episode, _ in results) / len(results),
        "turns": sum(episode.turns for episode, _ in results) / len(results),
    } | ({"correct": sum(correct) / len(results)} if correct else {})


def _planner_runs(chat: ChatFormat, environment: Environment, curriculum: Curriculum, seed: int) -> list[EpisodeRun]:
    """Planner episodes on validation tasks, with a perfect partner."""
    partner = curriculum.partner
    if partner is None:
        return []

    def run(index: int) -> EpisodeRun:
        task = environment.task("validation", seed, index)

        async def episode(sampler: Sampler) -> tuple[Episode, float | None]:
            done = await _run(
                sampler, chat, DELEGATE.bound(partner), environment.system_prompt("planner"), task.query, curriculum
            )
            return done, environment.correctness(task, done.answer) if done.answer is not None else 0.0

        return episode

    return [run(index) for index in range(EPISODES)]


def _executor_runs(chat: ChatFormat, environment: Environment, curriculum: Curriculum, seed: int) -> list[EpisodeRun]:
    """Executor episodes on subtasks about validation entities, with the environment's own tools."""
    subtask_of = curriculum.subtask
    if subtask_of is None:
        return []
    rng = random.Random(f"subtasks/{seed}")
    tools = Toolbox(environment.tools())

    def run(index: int) -> EpisodeRun:
        subtask = subtask_of("validation", rng)
        toolbox = tools.bound(ToolContext(split="validation", task_id=f"gate-{seed}-{index}", subtask=subtask))

        async def episode(sampler: Sampler) -> tuple[Episode, float | None]:
            done = await _run(sampler, chat, toolbox, environment.system_prompt("executor"), subtask, curriculum)
            return done, None

        return episode

    return [run(index) for index in range(EPISODES)]


async def _run(
    sampler: Sampler, chat: ChatFormat, toolbox: Toolbox, system: str, user: str, curriculum: Curriculum
) -> Episode:
    limits = curriculum.limits
    params = SamplingParams(max_new_tokens=limits.max_new_tokens, temperature=1.0)
    return await run_agent(sampler, chat, toolbox, system=system, user=user, limits=limits, params=params)
