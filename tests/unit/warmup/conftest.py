"""A tiny curriculum, on the trivial environment and its models: each row takes microseconds."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from shared.environments.base import Environment, ToolResult
from shared.policy.warmup.conversation import Conversation, Row, Turn
from shared.policy.warmup.curriculum import Curriculum
from shared.policy.warmup.pace import Pace
from tests.parity_environment import Parity, answer, build_tokenizer, call, save_model

PACE = Pace(batch=4, lr=1e-2, rise_steps=1, least_steps=3, decay_steps=2, most_steps=6)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def demonstrate(role):
    """One call, then an answer; now and then the answer alone."""

    def demonstration(rng) -> Conversation:
        last = Turn(answer(rng.randrange(8)))
        if rng.random() < 0.3:
            return Conversation("2", (last,))
        return Conversation("2", (Turn(call(role, rng.randrange(4)), (ToolResult("ok", "3"),)), last))

    return demonstration


class Taught(Parity):
    """The trivial environment with a curriculum."""

    name = "taught"
    changes: dict = {}

    def curriculum(self, role) -> Curriculum:
        tokenizer = build_tokenizer(role)
        (word,) = tokenizer.encode(answer(3), add_special_tokens=False)

        def exercise(rng, skewed) -> Row:
            return Row([1, word, 1, word], [False, False, False, True])

        def lookup(rng) -> Row:
            return exercise(rng, False)

        curriculum = Curriculum(
            demonstration=demonstrate(role),
            exercise=exercise,
            lookup=lookup,
            partner=(lambda split, task: ToolResult("ok", "4")) if role == "planner" else None,
            subtask=(lambda split, rng: "2") if role == "executor" else None,
            pace=PACE.model_copy(update={"exercises": 0.5, "gate": 0.0, "uniform_from": 0.0}),
            thresholds={"lookup": 0.0, "format": 0.0},
        )
        return replace(curriculum, **self.changes)


@pytest.fixture
def taught() -> Environment:
    return Taught()


@pytest.fixture
def model_folder(tmp_path):
    return save_model(tmp_path / "start", "planner")


class TaughtStrictly(Taught):
    """Its gate cannot be passed."""

    name = "taught-strictly"
    changes = {"thresholds": {"format": 1.1}}
