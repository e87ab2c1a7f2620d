"""Evaluations beside the training: however large and many, they cost no more tasks than there are places."""

import asyncio
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from planner_server.evaluations import MOST_RUNNING, Evaluations
from shared.errors import Overloaded, Unavailable
from shared.ids import new_id
from shared.schemas.invocation import EvaluationRequest
from tests.waiting import until

PLACES = 4
HUGE = EvaluationRequest(split="validation", n=100_000)


async def test_they_are_bounded_and_end_at_once():
    rolling = []

    async def roll_out(*_: Any, **__: Any) -> None:
        rolling.append(True)
        await asyncio.Event().wait()

    roller: Any = SimpleNamespace(environment=SimpleNamespace(task=lambda *_: None), roll_out=roll_out)
    evaluations = Evaluations(roller, lambda _: nullcontext(), lambda _: None, places=PLACES, attempts=1)  # ty: ignore
    before = len(asyncio.all_tasks())
    names = [new_id() for _ in range(MOST_RUNNING)]
    for name in names:
        evaluations.start(name, HUGE)
    with pytest.raises(Overloaded):
        evaluations.start(new_id(), HUGE)
    assert evaluations.start(names[0], HUGE).state == "running"
    await until(lambda: len(rolling) == PLACES)
    assert len(asyncio.all_tasks()) - before <= MOST_RUNNING * (PLACES + 1)
    await evaluations.close()
    assert len(asyncio.all_tasks()) == before


async def test_an_evaluation_holds_its_checkpoint_until_it_ends():
    held, go = [], asyncio.Event()

    @contextmanager
    def hold(name: str) -> Any:
        held.append(name)
        yield
        held.remove(name)

    async def roll_out(*_: Any, **__: Any) -> None:
        await go.wait()
        raise Unavailable("seen enough")

    roller: Any = SimpleNamespace(environment=SimpleNamespace(task=lambda *_: None), roll_out=roll_out)
    evaluations = Evaluations(roller, hold, lambda _: None, places=PLACES, attempts=1)  # ty: ignore
    request = HUGE.model_copy(update={"planner_checkpoint": "step-3"})
    name = new_id()
    evaluations.start(name, request)
    evaluations.start(name, request)
    assert held == ["step-3"]
    go.set()
    await until(lambda: evaluations.view(name).state == "failed" and not held)


async def test_an_accuracy_is_told_once():
    episode = SimpleNamespace(r_format=1)
    done = iter([1.0, 0.0, 0.0, 0.0])

    async def roll_out(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(episode=episode, r_correct=next(done), calls=0, delegations=())

    task = SimpleNamespace(metadata={})
    roller: Any = SimpleNamespace(environment=SimpleNamespace(task=lambda *_: task), roll_out=roll_out)
    evaluations = Evaluations(roller, lambda _: nullcontext(), lambda _: None, places=PLACES, attempts=1)  # ty: ignore
    assert evaluations.accuracies() == {}
    name = new_id()
    evaluations.start(name, HUGE.model_copy(update={"n": 4}))
    await until(lambda: evaluations.view(name).state == "done")
    assert evaluations.accuracies() == {"accuracy_validation": 0.25}
    assert evaluations.accuracies() == {}
