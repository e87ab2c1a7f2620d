"""A server that starts from a checkpoint compares log-probs before it goes on."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from shared.errors import UserError
from shared.policy.types import Completion, SamplingParams, Trajectory
from shared.schemas import PolicyVersion
from shared.serving.rejoin import compare_log_probs, first_turn


def row(id: str, updates: int) -> Trajectory:
    """A prompt of two tokens, a turn of two, a fed one and a second turn."""
    return Trajectory(
        id=id,
        run="run",
        role="planner",
        token_ids=[5, 6, 7, 8, 9, 10],
        mask=[0, 0, 1, 1, 0, 1],
        logprobs=[0.0, 0.0, -1.0, -2.0, 0.0, -99.0],
        version=PolicyVersion(epoch=1, step=updates, updates=updates),
    )


@dataclass
class FakePolicy:
    """A checkpoint of 4 updates; the trainer says -1 and -2, moved by `trainer`, the sampler the same by `sampler`."""

    rows: list[Trajectory]
    trainer: float = 0.0
    sampling: float = 0.0
    checkpoint: Any = field(default_factory=lambda: SimpleNamespace(name="step-5", updates=4, path=Path()))

    def __post_init__(self) -> None:
        self.store = self.sampler = self

    def latest(self) -> Any:
        return self.checkpoint

    async def unreleased(self, run: str) -> list[Trajectory]:
        return self.rows

    async def logprobs(self, token_ids: list[int], first: int) -> list[float]:
        assert (token_ids[:2], first, len(token_ids)) == ([5, 6], 2, 4)
        return [-1.0 + self.trainer, -2.0 + self.trainer]

    async def generate(self, prompt: list[int], params: SamplingParams) -> Completion:
        assert (prompt, params) == ([5, 6], SamplingParams(2, 0.7))
        return Completion([1, 2], [-1.0 + self.sampling, -2.0 + self.sampling], self.rows[0].version, "length")


async def compared(policy: FakePolicy, bound: float | None) -> Any:
    config: Any = SimpleNamespace(temperature=0.7, trainer=SimpleNamespace(max_gap=bound))
    with capture_logs() as lines:
        await compare_log_probs(policy, "run", config)  # ty: ignore[invalid-argument-type]
    return lines[-1] if lines else None


def test_a_later_turn_may_be_of_newer_weights():
    assert first_turn(row("a", 4)) == range(2, 4)


async def test_both_gaps_are_told():
    line = await compared(FakePolicy([row("a", 4), row("b", 3)], trainer=0.25, sampling=0.75), bound=None)
    assert (line["event"], line["checkpoint"], line["rows"]) == ("log-probs-compared", "step-5", 1)
    assert (line["stored_mean"], line["stored_max"]) == (0.25, 0.25)
    assert (line["sampler_mean"], line["sampler_max"]) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("policy", "whose"),
    [
        (FakePolicy([row("a", 4)], trainer=0.3, sampling=0.3), "stored rows"),
        (FakePolicy([row("a", 4)], sampling=0.3), "the sampler"),
        (FakePolicy([row("a", 4)], trainer=float("nan")), "stored rows"),
    ],
)
async def test_a_gap_above_the_bound_is_a_mistake_to_mend(policy: FakePolicy, whose: str):
    with pytest.raises(UserError, match=f"log-probs of {whose} are .* above policy.trainer.max_gap, 0.2"):
        await compared(policy, bound=0.2)


async def test_rows_of_other_weights_say_nothing():
    assert (await compared(FakePolicy([row("b", 3)], trainer=9), bound=0.1))["event"] == "log-probs-not-compared"
    assert await compared(FakePolicy([row("a", 4)], trainer=9, checkpoint=None), bound=0.1) is None
