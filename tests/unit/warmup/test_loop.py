"""The mechanics of the supervised loop; nothing here depends on how fast anything is learned."""

import random
from dataclasses import replace

import pytest
import torch

from shared.policy.model import load_model
from shared.policy.tokenizer import load_tokenizer
from shared.policy.warmup import loop
from shared.policy.warmup.conversation import Row
from shared.policy.warmup.loop import accumulate, collate, count_sure, draw_batch, train
from shared.policy.warmup.pace import Pacer
from shared.policy.warmup.seat import take_seat


@pytest.fixture
def model(model_folder):
    return load_model(model_folder, torch.device("cpu"))


@pytest.fixture
def seat(taught, model_folder):
    return take_seat(taught, "planner", taught.curriculum("planner"), load_tokenizer(model_folder))


def weights(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def test_it_ends_when_the_pace_ends_and_reports_each_step(model, seat):
    seen = []
    pacer = train(model, [seat], seed=0, report=seen.append)
    assert [progress.step for progress in seen] == list(range(1, pacer.step + 1))
    assert pacer.finished or pacer.failed
    assert all(progress.loss > 0 for progress in seen)


def test_just_so_many_steps(model, seat):
    assert train(model, [seat], seed=0, steps=2).step == 2


def test_a_seed_gives_the_same_weights(model_folder, seat):
    runs = []
    for seed in (1, 1, 2):
        model = load_model(model_folder, torch.device("cpu"))
        train(model, [seat], seed=seed, steps=3)
        runs.append(weights(model))
    assert all(torch.equal(runs[0][name], runs[1][name]) for name in runs[0])
    assert any(not torch.equal(runs[0][name], runs[2][name]) for name in runs[0])


def test_frozen_rows_stay_and_the_others_learn(model, seat):
    model.config.frozen_embedding_rows = [3, 9]
    before = model.get_input_embeddings().weight.detach().clone()
    train(model, [seat], seed=0, steps=3)
    after = model.get_input_embeddings().weight.detach()
    assert torch.equal(before[3:9], after[3:9])
    assert not torch.equal(before, after)


def test_embeddings_may_learn_more_slowly(model_folder, seat):
    moved = []
    for share in (1.0, 0.1):
        model = load_model(model_folder, torch.device("cpu"))
        before = weights(model)
        pace = seat.curriculum.pace.model_copy(update={"embedding_lr": share})
        train(model, [replace(seat, curriculum=replace(seat.curriculum, pace=pace))], seed=0, steps=1)
        moved.append({name: float((weight - before[name]).abs().max()) for name, weight in weights(model).items()})
    for name in moved[0]:
        expected = 0.1 if name == "model.embed_tokens.weight" else 1.0
        assert moved[1][name] == pytest.approx(expected * moved[0][name], rel=1e-3), name


def test_a_batch_holds_the_share_of_exercises(seat):
    pacer = Pacer(seat.curriculum.pace.model_copy(update={"exercises": 0.5}), exercised=True)
    rng = random.Random(0)
    counts = [len(draw_batch([seat], pacer, rng)[1]) for _ in range(200)]
    assert sum(counts) / 200 / seat.curriculum.pace.batch == pytest.approx(0.5, abs=0.06)


def test_a_model_of_two_seats_has_rows_of_both(seat):
    marked = [replace(seat, curriculum=replace(seat.curriculum, exercise=lambda rng, skewed, m=m: m)) for m in "ab"]
    pacer = Pacer(seat.curriculum.pace.model_copy(update={"exercises": 1.0, "batch": 100}), exercised=True)
    rows, exercises = draw_batch(marked, pacer, random.Random(0))
    assert len(exercises) == 100
    assert 30 < rows.count("a") < 70


ROWS = [
    Row([2, 3, 4, 5], [False, True, True, False]),
    Row([2, 6], [False, True]),
    Row([3, 4, 5, 6, 7, 8, 9], [False] * 6 + [True]),
]


@pytest.mark.parametrize("padding", [0, 3, 1000])
def test_the_gradient_does_not_depend_on_how_rows_are_bundled(model, monkeypatch, padding):
    tokens, learned = collate(ROWS, model.device)
    logits = model(input_ids=tokens).logits.log_softmax(-1)
    own = logits[:, :-1].gather(-1, tokens[:, 1:, None])[..., 0]
    expected = -(own * learned[:, 1:]).sum() / learned.sum()
    expected.backward()
    gradient = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    monkeypatch.setattr(loop, "PADDING_TOKENS", padding)
    loss, lookup = accumulate(model, ROWS, set())
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert lookup is None
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter.grad, gradient[name], atol=1e-6), name


def test_the_look_up_counts_the_exercises_only(model, monkeypatch):
    monkeypatch.setattr(loop, "count_sure", lambda logprobs, learned: int(learned.sum()))
    assert accumulate(model, ROWS, {0})[1] == 1.0
    assert accumulate(model, ROWS, {0, 2})[1] == 1.0


def test_a_token_is_found_where_it_has_more_than_half_of_the_probability():
    logprobs = torch.tensor([[0.0, 0.51, 0.49, 0.9]]).log()
    assert count_sure(logprobs, torch.tensor([[0, 1, 1, 0]])) == 1
    assert count_sure(logprobs, torch.tensor([[0, 1, 1, 1]])) == 2


def test_rows_are_padded_at_the_end():
    tokens, learned = collate(ROWS[:2], torch.device("cpu"))
    assert tokens.tolist() == [[2, 3, 4, 5], [2, 6, 0, 0]]
    assert learned.tolist() == [[0, 1, 1, 0], [0, 1, 0, 0]]
