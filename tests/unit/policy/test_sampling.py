"""The sampler's ids and log-probs against plain full forward passes."""

import pytest
import torch
from transformers import MistralConfig, MistralForCausalLM

from shared.policy.buckets import buckets
from shared.policy.draw import draw
from shared.policy.sampling import sample
from shared.policy.turns import Prompt

from .tiny import STOP, WORDS, build_model

LENGTHS = [3, 60, 17, 17, 1, 42, 88]


def prompts(lengths=LENGTHS, new=6, stop=()):
    generator = torch.Generator().manual_seed(3)
    ids = [torch.randint(2, WORDS, (n,), generator=generator).tolist() for n in lengths]
    return [Prompt(row, new, frozenset(stop)) for row in ids]


def full_logprobs(model, prompt, turn, temperature=1.0):
    """Log-probs of the turn's tokens from one forward pass over the whole row, without cache or padding."""
    row = torch.tensor([prompt.token_ids + turn.token_ids])
    with torch.no_grad():
        logprobs = (model(row).logits[0, len(prompt.token_ids) - 1 : -1] / temperature).log_softmax(-1)
    return logprobs.gather(1, torch.tensor(turn.token_ids)[:, None])[:, 0].tolist()


def sliding_model():
    torch.manual_seed(0)
    shape = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = MistralConfig(vocab_size=WORDS, num_key_value_heads=2, sliding_window=16, initializer_range=0.2, **shape)
    config._attn_implementation = "sdpa"
    return MistralForCausalLM(config).eval()


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
@pytest.mark.parametrize("make", [build_model, sliding_model, lambda: build_model(num_key_value_heads=2, tied=False)])
def test_logprobs_are_those_of_a_full_forward_pass(make, temperature):
    model = make()
    requests = prompts()
    for request, turn in zip(requests, sample(model, requests, temperature), strict=True):
        assert len(turn.token_ids) == len(turn.logprobs) == 6
        assert turn.logprobs == pytest.approx(full_logprobs(model, request, turn, temperature or 1.0), abs=1e-4)


@pytest.mark.parametrize("make", [build_model, sliding_model])
def test_greedy_turns_do_not_depend_on_the_company(make):
    model = make()
    requests = prompts()
    together = sample(model, requests, 0.0)
    alone = [sample(model, [request], 0.0)[0] for request in requests]
    assert [turn.token_ids for turn in together] == [turn.token_ids for turn in alone]
    for one, other in zip(together, alone, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_greedy_takes_the_likeliest_token():
    model = build_model()
    (request,) = prompts([9], new=1)
    (turn,) = sample(model, [request], 0.0)
    assert turn.token_ids == [int(model(torch.tensor([request.token_ids])).logits[0, -1].argmax())]


def test_each_row_has_its_own_limit_and_stop_ids():
    model = build_model()
    (base,) = prompts([9], new=8)
    (free,) = sample(model, [base], 0.0)
    third = free.token_ids[2]
    first = free.token_ids.index(third)
    short = Prompt(base.token_ids, 4, frozenset())
    stopped = Prompt(base.token_ids, 8, frozenset({third}))
    turns = sample(model, [stopped, base, short], 0.0)
    assert [turn.token_ids for turn in turns] == [free.token_ids[: first + 1], free.token_ids, free.token_ids[:4]]
    assert [turn.finish for turn in turns] == ["stop", "length", "length"]


def test_a_stop_at_the_last_token_is_a_stop():
    model = build_model()
    (base,) = prompts([9], new=1)
    (free,) = sample(model, [base], 0.0)
    (turn,) = sample(model, [Prompt(base.token_ids, 1, frozenset(free.token_ids))], 0.0)
    assert turn.finish == "stop"


def test_draws_follow_the_distribution():
    probabilities = torch.tensor([0.0, 0.5, 0.0, 0.3, 0.2])
    rows = probabilities.log().expand(200_000, 5)
    counts = draw(rows, torch.Generator().manual_seed(1)).bincount(minlength=5) / 200_000
    assert counts[0] == counts[2] == 0
    assert counts.tolist() == pytest.approx(probabilities.tolist(), abs=0.01)


def test_the_least_and_the_greatest_draw_are_tokens_that_have_a_probability(monkeypatch):
    rows = torch.tensor([[0.0, 0.5, 0.5, 0.0]]).log()
    for uniform, token in ((0.0, 1), (1 - 2**-53, 2)):
        monkeypatch.setattr(torch, "rand", lambda *shape, uniform=uniform, **_: torch.full(shape, uniform).double())
        assert draw(rows).tolist() == [token]


def test_a_seed_repeats_its_draws():
    model = build_model()
    first, again, other = (sample(model, prompts(), 1.0, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("lengths", [[5], [4] * 40, [1, 100], list(range(1, 65)), [5] * 30 + [60] * 30])
def test_buckets_cut_the_rows_in_order_within_the_padding(lengths):
    parts = buckets(lengths, 128)
    assert [length for part in parts for length in lengths[part]] == lengths
    for part in parts:
        rows = lengths[part]
        assert rows
        assert sum(rows[-1] - length for length in rows) <= 128


def test_a_stop_id_ends_a_sampled_turn():
    turns = sample(build_model(), prompts([5] * 64, new=60, stop=[STOP]), 1.0, torch.Generator().manual_seed(0))
    stopped = [turn for turn in turns if turn.finish == "stop"]
    assert stopped
    assert all(turn.token_ids.index(STOP) == len(turn.token_ids) - 1 for turn in stopped)
