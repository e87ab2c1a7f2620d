"""Which evaluation checkpoints are held while more are asked for, step by step, in this process."""

import pytest
import torch

from shared.policy import checkpoint_engines
from shared.policy.checkpoint_engines import CheckpointEngines
from shared.policy.checkpoint_queue import CheckpointQueue
from shared.policy.engine import Engine
from shared.policy.model import load_model
from shared.policy.turns import Prompt

from .tiny import save_model


@pytest.fixture
def engines():
    def load(folder):
        return load_model(folder, torch.device("cpu"))

    return CheckpointEngines(load, lambda model, version: Engine(model, 8, 2**24, version=version))


@pytest.fixture
def folders(tmp_path):
    return [save_model(tmp_path / name, seed=seed) for seed, name in enumerate("abc")]


def ask(queue, id_, folder, new):
    queue.add(id_, folder, Prompt([5, 6], new, frozenset(), 0.0))


def step(engines):
    return [key for engine in engines.all() for key, _ in engine.step()]


def kept_busy(queue, engines, folders, steps):
    """Ask for the first two in each step anew, while turns of theirs are still in flight; which turns have ended."""
    ended = []
    for number in range(steps):
        for id_, folder in zip("ab", folders, strict=False):
            ask(queue, (id_, number), folder, 3)
        if number == 2:
            ask(queue, "c", folders[2], 3)
        assert queue.admit() == []
        ended += step(engines)
    return ended


def test_two_that_are_kept_busy_do_not_shut_a_third_out(engines, folders, monkeypatch):
    monkeypatch.setattr(checkpoint_engines, "SLICE_S", 0.0)
    queue = CheckpointQueue(engines)
    ended = kept_busy(queue, engines, folders, 20)
    assert "c" in ended
    others = [key for key in ended if key != "c"]  # none of which is left out
    for id_ in "ab":
        numbers = sorted(number for key, number in others if key == id_)
        assert numbers == list(range(len(numbers)))
        assert len(numbers) >= 5


def test_one_that_is_held_has_its_time_first(engines, folders, monkeypatch):
    monkeypatch.setattr(checkpoint_engines, "SLICE_S", float("inf"))
    queue = CheckpointQueue(engines)
    ended = kept_busy(queue, engines, folders, 20)
    assert "c" not in ended
    assert len(ended) == 2 * (20 - 2)
    assert len(queue) == 1


def test_one_whose_rival_is_cancelled_is_open_again(engines, folders, monkeypatch):
    monkeypatch.setattr(checkpoint_engines, "SLICE_S", 0.0)
    queue = CheckpointQueue(engines)
    for id_, folder in enumerate(folders):
        ask(queue, id_, folder, 9)
    ask(queue, "later", folders[0], 2)
    queue.admit()
    assert len(queue) == 2  # the third, and what would keep the first one busy
    queue.cancel(2)
    queue.admit()
    assert len(queue) == 0
    step(engines)
    assert step(engines) == ["later"]
