"""When a checkpoint is due, and which trajectories it lets go of."""

from types import SimpleNamespace
from typing import Any

import pytest

from shared.ids import new_id
from shared.schemas.run import RunSpec
from shared.schemas.stream import Ack
from shared.serving.saver import Saver


class Policy:
    """Writes down what is saved and released."""

    def __init__(self) -> None:
        self.step = 0
        self.saved: list[int] = []
        self.released: list[set[str]] = []
        self.before: list[int] = []
        self.store = SimpleNamespace(release=self._release, release_before=self._release_before)

    async def save(self, step: int, ack: Ack) -> Any:
        assert ack.step == step
        self.saved.append(step)
        return SimpleNamespace(name=f"step-{step}", updates=step)

    async def _release(self, ids: set[str]) -> None:
        self.released.append(set(ids))

    async def _release_before(self, run: str, updates: int) -> None:
        self.before.append(updates)


@pytest.fixture
def policy() -> Policy:
    return Policy()


@pytest.fixture
def saver(policy: Policy) -> Saver:
    return Saver(policy, "r", RunSpec(steps=7, staleness=1), every=3)  # ty: ignore[invalid-argument-type]


async def train(policy: Policy, saver: Saver, *steps: int) -> list[str]:
    names = [new_id() for _ in steps]
    for step, name in zip(steps, names, strict=True):
        policy.step = step
        await saver.save_if_due(Ack(epoch=1, step=step, outcome="trained", updates=step, fates={name: 1}))
    return names


async def test_every_so_many_steps_and_at_the_last(policy: Policy, saver: Saver):
    names = await train(policy, saver, 1, 2, 3, 4, 5, 6, 7)
    assert policy.saved == [3, 6, 7]
    assert policy.released == [set(names[:3]), set(names[3:6]), set(names[6:])]
    assert policy.before == [2, 5, 6]
    await saver.save_last()
    assert policy.saved == [3, 6, 7]


async def test_a_drained_stream_saves_its_last_step(policy: Policy, saver: Saver):
    await train(policy, saver, 1, 2, 3, 4)
    await saver.save_last()
    assert policy.saved == [3, 4]


async def test_a_lost_step_is_not_saved_under_its_name(policy: Policy, saver: Saver):
    await train(policy, saver, 1, 2, 3, 4)
    policy.step = 3
    await saver.save_last()
    assert policy.saved == [3]
