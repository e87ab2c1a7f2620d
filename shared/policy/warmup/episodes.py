"""The episodes that the gates run: a seat's work on validation tasks, as a rollout would have it, at temperature 1.

A planner has a perfect partner; an executor is given subtasks that a planner might delegate; a single model works on
the tasks with the environment's tools.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from shared.agents.loop import Episode, run_agent
from shared.agents.toolbox import Toolbox
from shared.environments.base import ToolContext
from shared.policy.types import Sampler, SamplingParams
from shared.policy.warmup.faults import Fault, Injection
from shared.policy.warmup.seat import Seat, tools_of, works_alone


@dataclass(frozen=True, slots=True)
class Ended:
    """One episode; `correct` is None where there is no means to judge it, `fault` where none was met."""

    episode: Episode
    correct: float | None
    fault: str | None = None


Run = Callable[[Sampler], Awaitable[Ended]]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What one episode is about: the user's message, what its tools know of it, and the judgement."""

    user: str
    context: Any
    judge: Callable[[str], float] | None


def runs(seat: Seat, seed: int, count: int) -> list[Run]:
    """`count` episodes; none where the curriculum lacks the means: a partner, or subtasks."""
    return [partial(_run, seat, asked, None) for asked in _asked(seat, seed, count)]


def faulty_runs(seat: Seat, seed: int, count: int) -> list[Run]:
    """The same episodes with one fault in each; some have no place for a fault."""
    draw = seat.curriculum.fault
    if draw is None:
        return []
    rng = random.Random(f"faults/{seed}")
    drawn = ((asked, draw(rng, asked.user)) for asked in _asked(seat, seed, count))
    return [partial(_run, seat, asked, fault) for asked, fault in drawn if fault is not None]


def _asked(seat: Seat, seed: int, count: int) -> list[_Asked]:
    """Tasks for who answers them, subtasks for an executor."""
    if seat.role == "executor":
        return _subtasks(seat, seed, count)
    alone = works_alone(seat.environment, seat.role)
    if seat.curriculum.partner is None and not alone:
        return []
    tasks = [seat.environment.task("validation", seed, index) for index in range(count)]
    partner = seat.curriculum.partner
    return [
        _Asked(
            task.query,
            ToolContext("validation", task.id, task.query) if alone else partner,
            partial(seat.environment.correctness, task),
        )
        for task in tasks
    ]


def _subtasks(seat: Seat, seed: int, count: int) -> list[_Asked]:
    draw, right = seat.curriculum.subtask, seat.curriculum.right
    if draw is None:
        return []
    rng = random.Random(f"subtasks/{seed}")
    subtasks = [draw("validation", rng) for _ in range(count)]
    return [
        _Asked(
            subtask,
            ToolContext("validation", f"gate-{seed}-{index}", subtask),
            None if right is None else partial(right, "validation", subtask),
        )
        for index, subtask in enumerate(subtasks)
    ]


async def _run(seat: Seat, asked: _Asked, fault: Fault | None, sampler: Sampler) -> Ended:
    injection = None if fault is None else Injection(fault)
    limits = seat.curriculum.limits
    episode = await run_agent(
        sampler if injection is None else injection.sampler(sampler, seat.chat),
        seat.chat,
        _toolbox(seat, injection).bound(asked.context),
        system=seat.environment.system_prompt(seat.role),
        user=asked.user,
        limits=limits,
        params=SamplingParams(max_new_tokens=limits.max_new_tokens, temperature=1.0),
    )
    met = injection.fault.kind if injection is not None and injection.happened else None
    if asked.judge is None:
        return Ended(episode, None, met)
    return Ended(episode, asked.judge(episode.answer) if episode.answer is not None else 0.0, met)


def _toolbox(seat: Seat, injection: Injection | None) -> Toolbox:
    if injection is None:
        return seat.toolbox
    return Toolbox(injection.tools(tools_of(seat.environment, seat.role)))
