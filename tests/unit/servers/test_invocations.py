"""Invocations by id: joined, recalled, cancelled when nobody waits any more, bounded by their deadline."""

import asyncio
from typing import Any

import pytest

from executor_server.invocations import Invocations
from shared.errors import BodyConflict, DeadlineExceeded, Unavailable
from shared.ids import new_id
from shared.schemas.invocation import EvaluationPolicy, InvocationAnswer, InvocationRequest
from tests.waiting import until

ANSWER = InvocationAnswer(status="ok", answer="7", r_format=1)


class Work:
    """Sampling ends when `go` is set; what is kept is remembered as the store would."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.store_is_free = asyncio.Event()
        self.store_is_free.set()
        self.sampled: list[str] = []
        self.cancelled = 0
        self.keeping = False
        self.kept: dict[str, InvocationAnswer] = {}

    async def recall(self, invocation: str, request: InvocationRequest) -> InvocationAnswer | None:
        return self.kept.get(invocation)

    async def sample(self, request: InvocationRequest) -> Any:
        self.sampled.append(request.subtask)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def keep(self, invocation: str, request: InvocationRequest, episode: Any) -> InvocationAnswer:
        self.keeping = True
        await self.store_is_free.wait()
        if request.evaluation is None:
            self.kept[invocation] = ANSWER
        return ANSWER


def request(subtask: str = "find it", **changes: Any) -> InvocationRequest:
    return InvocationRequest(run="r", rollout=ROLLOUT, index=0, subtask=subtask, task_id="t", **changes)


ROLLOUT, ID = new_id(), new_id()


async def test_a_second_request_joins_the_one_in_progress():
    work = Work()
    invocations = Invocations(work, 60.0)
    asked = [asyncio.create_task(invocations.answer(ID, request())) for _ in range(2)]
    await until(lambda: work.sampled)
    work.go.set()
    assert await asyncio.gather(*asked) == [ANSWER, ANSWER]
    assert work.sampled == ["find it"]


async def test_a_finished_one_is_answered_from_the_store():
    work = Work()
    work.go.set()
    invocations = Invocations(work, 60.0)
    for _ in range(2):
        assert await invocations.answer(ID, request()) == ANSWER
    assert work.sampled == ["find it"]


async def test_another_request_under_the_id_is_a_conflict():
    work = Work()
    invocations = Invocations(work, 60.0)
    first = asyncio.create_task(invocations.answer(ID, request()))
    await until(lambda: work.sampled)
    with pytest.raises(BodyConflict):
        await invocations.answer(ID, request("find another"))
    work.go.set()
    assert await first == ANSWER


async def test_the_last_client_to_go_cancels_it_and_the_id_starts_afresh():
    work = Work()
    invocations = Invocations(work, 60.0)
    first, second = (asyncio.create_task(invocations.answer(ID, request())) for _ in range(2))
    await until(lambda: work.sampled)
    first.cancel()
    await asyncio.wait({first})
    assert work.cancelled == 0
    second.cancel()
    await until(lambda: work.cancelled == 1)
    assert work.kept == {}
    work.go.set()
    assert await invocations.answer(ID, request()) == ANSWER
    assert len(work.sampled) == 2


async def test_what_is_sampled_is_kept_even_where_the_client_has_gone():
    work = Work()
    work.store_is_free.clear()
    invocations = Invocations(work, 60.0)
    asked = asyncio.create_task(invocations.answer(ID, request()))
    work.go.set()
    await until(lambda: work.keeping)
    asked.cancel()
    await asyncio.wait({asked})
    work.store_is_free.set()
    await until(lambda: ID in work.kept)
    assert await invocations.answer(ID, request()) == ANSWER
    assert len(work.sampled) == 1


async def test_a_deadline_is_an_error_and_leaves_nothing():
    work = Work()
    invocations = Invocations(work, 0.01)
    with pytest.raises(DeadlineExceeded):
        await invocations.answer(ID, request())
    assert (work.cancelled, work.kept, invocations._running) == (1, {}, {})


async def test_an_evaluation_is_never_recalled():
    work = Work()
    work.go.set()
    work.kept[ID] = InvocationAnswer(status="ok", answer="of training", r_format=1)
    evaluation = EvaluationPolicy(checkpoint="initial")
    assert await Invocations(work, 60.0).answer(ID, request(evaluation=evaluation)) == ANSWER


async def test_close_cancels_what_is_not_sampled():
    work = Work()
    invocations = Invocations(work, 60.0)
    asked = asyncio.create_task(invocations.answer(ID, request()))
    await until(lambda: work.sampled)
    await invocations.close()
    assert work.cancelled == 1
    with pytest.raises(Unavailable, match="stopping"):
        await asked
