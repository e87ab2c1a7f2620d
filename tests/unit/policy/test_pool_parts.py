"""The parts of sharded training that need no second process: who runs what, and the head in chunks."""

import pytest
import torch
from transformers import CohereConfig, CohereForCausalLM

from shared.errors import UserError
from shared.policy import logprobs
from shared.policy.batches import Example, collate
from shared.policy.pool import head
from shared.policy.pool.balance import share

from .tiny import WORDS, build_model


def example(name: str, length: int) -> Example:
    ids = [2 + (7 * place + length) % (WORDS - 2) for place in range(length)]
    return Example(name, ids, [0] + [1] * (length - 1), [0.0] * length, advantage=1.0, multiplicity=2.0)


@pytest.mark.parametrize("shards", [1, 2, 3, 7])
def test_each_row_runs_once_and_all_shards_run_equally_many(shards):
    parts = [
        [example(f"{i}.{j}", length) for j in range(rows)]
        for i, (rows, length) in enumerate([(4, 30), (9, 5), (1, 90), (2, 20), (3, 8)])
    ]
    given = [share(parts, rank, shards) for rank in range(shards)]
    assert len({len(mine) for mine in given}) == 1
    rows = [row for mine in given for part in mine for row in part if row.multiplicity]
    assert sorted(rows, key=str) == sorted((row for part in parts for row in part), key=str)
    idle = [part for mine in given for part in mine if not part[0].multiplicity]
    assert all(len(part) == 1 and len(part[0].token_ids) == 5 for part in idle)  # the least that can be run


def test_a_batch_that_fits_one_micro_batch_is_cut_so_that_all_shards_work():
    rows = [example(str(i), 10 + i) for i in range(8)]
    given = [share([rows], rank, 3) for rank in range(3)]
    assert all(mine[0][0].multiplicity for mine in given)
    assert sorted((e for mine in given for part in mine for e in part if e.multiplicity), key=str) == sorted(
        rows, key=str
    )


def test_the_load_is_balanced_by_tokens():
    parts = [[example(str(i), length)] for i, length in enumerate([10, 90, 20, 70, 50, 60])]
    loads = [sum(len(part[0].token_ids) for part in share(parts, rank, 2)) for rank in range(2)]
    assert max(loads) <= 160  # of 300


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("chunk", [WORDS, 5 * WORDS, 10**9])
def test_the_head_within_the_model_gives_the_log_probs_of_the_head_by_itself(tied, chunk, monkeypatch):
    monkeypatch.setattr(head, "CHUNK_LOGITS", chunk)
    batch = collate([example("a", 23), example("b", 9)], torch.device("cpu"))
    gradients = []
    for module in (head, logprobs):
        model = build_model(tied=tied)
        picked = module.trained_logprobs(model, batch.tokens, batch.mask, 0.7)
        (picked * torch.linspace(-1, 1, picked.shape[1])).sum().backward()
        gradients.append([picked.detach(), *(parameter.grad for parameter in model.parameters())])
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-5, rtol=1e-4)


def test_a_model_that_changes_its_logits_after_its_head_is_refused_by_name():
    head.check_head(build_model())
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    cohere = CohereForCausalLM(CohereConfig(vocab_size=WORDS, logit_scale=0.5, **shape))
    with pytest.raises(UserError, match="CohereForCausalLM"):
        head.check_head(cohere)
