"""Loss and gradient of every combination that the trainer offers, against ten plain lines with real copies."""

import itertools
import random
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch.func import functional_call

from shared.mgrpo.config import ObjectiveConfig
from shared.policy import logprobs
from shared.policy.config import LoraConfig, TrainerConfig
from shared.policy.training import Trainer

from .test_training import examples
from .tiny import WORDS, build_model

NORMS = ({"loss_norm": "sequence"}, {"loss_norm": "token"}, {"loss_norm": "constant", "constant_length": 16})
OLD = ({"old": "sampled"}, {"old": "recomputed", "tis_cap": 1.1})
KL = ({}, {"kl_coef": 1.0})
OBJECTIVES = [a | b | c for a, b, c in itertools.product(NORMS, OLD, KL)] + [{"ratio": "sequence"}, {"preset": "paper"}]
LORA = LoraConfig(rank=3, alpha=4.5, target_modules=("q_proj", "down_proj"))
DEAD = {2}


def full_logprobs(model, weights, row):
    """Of the trained tokens of one row: the whole row's logits, no padding."""
    logits = functional_call(model, weights, (torch.tensor([row.token_ids]),)).logits[0, :-1]
    kept = torch.tensor(row.mask)[1:].bool()
    return logits.log_softmax(-1).gather(1, torch.tensor(row.token_ids)[1:, None])[kept, 0]


@cache
def rows():
    """Distinct rows with copies, whose sampled log-probs are near the model's; one is of a dead group."""
    model, rng, found = build_model(), random.Random(3), []
    for row in examples(6, dead=DEAD):
        with torch.no_grad():
            new = iter(full_logprobs(model, {}, row).tolist())
        found.append(replace(row, logprobs=[next(new) + rng.uniform(-0.4, 0.4) if m else 0.0 for m in row.mask]))
    return found


def reference_loss(model, weights, config):
    loss, copies = 0.0, [row for row in rows() for _ in range(int(row.multiplicity))]
    by = {"token": sum(sum(row.mask) for row in copies), "constant": len(copies) * 16}
    for row in (row for row in copies if not row.dead):
        new, sampled = full_logprobs(model, weights, row), torch.tensor([p for p in row.logprobs if p])
        ref = full_logprobs(build_model(), {}, row).detach()
        before = sampled if config.old == "sampled" else new.detach()
        rho = ((new - before).sum() if config.ratio == "sequence" else new - before).exp()
        surrogate = torch.min(rho * row.advantage, rho.clamp(1 - config.eps_low, 1 + config.eps_high) * row.advantage)
        weight = (before - sampled).exp().clamp(max=config.tis_cap) if config.tis_cap else 1
        terms = (surrogate * weight - config.kl_coef * ((ref - new).exp() - (ref - new) - 1)).expand(len(new))
        loss = loss - terms.sum() / by.get(config.loss_norm or "", len(copies) * len(new))
    return loss


def moved(model):
    """The trained parameters, moved off the reference as some steps would."""
    generator = torch.Generator().manual_seed(1)
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    with torch.no_grad():
        for parameter in trained.values():
            parameter.add_(0.005 * torch.randn(parameter.shape, generator=generator))
    return trained


def with_adapters(adapters):
    """W + alpha / rank * B A of each adapted layer."""
    plain = dict(build_model().named_parameters())
    layers = {name.partition(".lora_")[0] for name in adapters}
    scale = LORA.alpha / LORA.rank
    return {
        f"{layer}.weight": plain[f"{layer}.weight"].detach()
        + scale * adapters[f"{layer}.lora_B.default.weight"] @ adapters[f"{layer}.lora_A.default.weight"]
        for layer in layers
    }


@cache
def expected(number, lora):
    """Loss, and gradients by name, of the plain lines."""
    trainer = Trainer(build_model(), TrainerConfig(lora=lora))
    leaves = {name: tensor.detach().clone().requires_grad_() for name, tensor in moved(trainer.model).items()}
    weights = with_adapters(leaves) if lora else leaves
    loss = reference_loss(build_model(), weights, ObjectiveConfig(**OBJECTIVES[number]))
    loss.backward()
    return loss.item(), {name: leaf.grad for name, leaf in leaves.items()}


@pytest.mark.parametrize("number", range(len(OBJECTIVES)), ids=lambda n: "-".join(map(str, OBJECTIVES[n].values())))
@pytest.mark.parametrize("lora", [None, LORA], ids=["full", "lora"])
@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "recomputed"])
@pytest.mark.parametrize(("budget", "chunk"), [(1, 1000), (60, 7), (10_000, 20)])
def test_loss_and_gradient_are_those_of_the_plain_lines(number, lora, recompute, budget, chunk, monkeypatch):
    monkeypatch.setattr(logprobs, "CHUNK_LOGITS", {"cpu": chunk * WORDS})
    config = TrainerConfig(
        objective=ObjectiveConfig(**OBJECTIVES[number]),
        micro_batch_tokens=budget,
        gradient_checkpointing=recompute,
        lora=lora,
    )
    reference = build_model() if config.objective.kl_coef and not lora else None
    trainer = Trainer(build_model(), config, reference=reference)
    trained = moved(trainer.model)
    statistics = trainer.accumulate(rows(), 1)
    loss, gradients = expected(number, lora)
    assert statistics["loss"] == pytest.approx(loss, abs=1e-5)
    assert max(gradient.abs().max() for gradient in gradients.values()) > 1e-3
    assert trained.keys() == gradients.keys()
    for name, parameter in trainer.model.named_parameters():
        if name in gradients:
            torch.testing.assert_close(parameter.grad, gradients[name], atol=1e-5, rtol=0)
        else:
            assert parameter.grad is None
