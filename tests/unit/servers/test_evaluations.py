"""Evaluations beside the training: however large and many, they cost no more tasks than there are places."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from planner_server.evaluations import MOST_RUNNING, Evaluations
from shared.errors import Overloaded
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
    evaluations = Evaluations(roller, lambda _: None, lambda _: None, places=PLACES, attempts=1)  # ty: ignore
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
