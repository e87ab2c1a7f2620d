"""The expert score: retried while the judge fails, given up at the deadline, refused by name when it is no reward."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from executor_server import judge
from executor_server.judge import expert_score
from shared.environments.base import Trace
from shared.errors import UserError
from tests.waiting import until

TRACE = Trace(subtask="s", calls=(), answer="a")


def environment(*answers: Any) -> Any:
    left = list(answers)

    def score(trace: Trace) -> Any:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(name="capitals", expert_score=score)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "RETRY_S", 0.0)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


async def test_a_failing_judge_is_asked_again(threads: ThreadPoolExecutor):
    assert await expert_score(environment(OSError("down"), ValueError("?"), 0.5), "id", TRACE, 60.0, threads) == 0.5


async def test_a_judge_that_fails_until_the_deadline_gives_no_score(threads: ThreadPoolExecutor):
    assert await expert_score(environment(OSError("down")), "id", TRACE, 0.05, threads) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, 1.5, "0.5", None])
async def test_what_is_no_reward_names_environment_trajectory_and_value(value: object, threads: ThreadPoolExecutor):
    with pytest.raises(UserError, match="environment capitals: expert_score of trajectory some-id is") as fault:
        await expert_score(environment(value), "some-id", TRACE, 60.0, threads)
    assert repr(value) in fault.value.detail


async def test_a_slow_judge_takes_no_thread_from_the_tools(threads: ThreadPoolExecutor):
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))  # in which the tools run
    asked, go = threading.Event(), threading.Event()

    def slow(trace: Trace) -> float:
        asked.set()
        go.wait(60)
        return 0.5

    judge: Any = SimpleNamespace(name="capitals", expert_score=slow)
    judgement = asyncio.create_task(expert_score(judge, "id", TRACE, 60.0, threads))
    try:
        await until(asked.is_set)
        async with asyncio.timeout(30):
            assert await asyncio.to_thread(lambda: "a tool's result") == "a tool's result"
    finally:
        go.set()
    assert await judgement == 0.5
