"""Peaks of live tensors: logits in chunks, rows that are much longer than the others, and the plan."""

import pytest
import torch

from shared.errors import UserError
from shared.policy import logprobs, memory
from shared.policy.batches import Example, collate, split
from shared.policy.config import LoraConfig, TrainerConfig
from shared.policy.logprobs import trained_logprobs
from shared.policy.store import TrajectoryStore
from shared.policy.trainer_child import TrainerService
from shared.policy.training import Trainer

from .live import LiveTensors
from .test_training import examples
from .tiny import WORDS, build_model, save_model

FLOAT32 = 4


def row(name, length, words=WORDS):
    ids = [2 + place % (words - 2) for place in range(length)]
    return Example(name, ids, [0, *[1] * (length - 1)], [-4.0] * length, advantage=1.0, multiplicity=1.0)


def service(folder):
    """A trainer's process in this one, on a tiny model and an empty store."""
    settings = {"model": str(save_model(folder)), "device": "cpu", "dtype": "float32", "threads": 1, "trainer": {}}
    store = folder / "trajectories.sqlite"
    TrajectoryStore(store, 2**20).close()
    return TrainerService(settings | {"temperature": 1.0, "total_steps": 1, "store": str(store)})


def peak(trainer, rows):
    """Of one step's gradient, above what lived before, with the gradient itself."""
    with LiveTensors() as live:
        trainer.accumulate(rows, 1)
    trainer.discard()
    return live.peak


def test_logits_never_stand_all_at_once(monkeypatch):
    words, rows = 8000, [row(f"t{i}", 100, 8000) for i in range(4)]
    whole = 4 * 99 * words * FLOAT32
    trainer = Trainer(build_model(vocab_size=words), TrainerConfig(), total_steps=1)
    at_once = peak(trainer, rows)
    monkeypatch.setattr(logprobs, "CHUNK_LOGITS", {"cpu": 20 * words})
    in_chunks = peak(trainer, rows)
    assert at_once > 2 * whole
    assert in_chunks < whole


def test_rows_of_one_micro_batch_do_not_see_one_another():
    model, rows = build_model(), examples(6)
    batch = collate(rows, model.device)
    before = trained_logprobs(model, batch.tokens, batch.mask, 1.0)
    other = batch.tokens.clone()
    other[2] = 2 + (other[2] + 1) % (WORDS - 2)
    after = trained_logprobs(model, other, batch.mask, 1.0)
    kept = [0, 1, 3, 4, 5]
    torch.testing.assert_close(after[kept], before[kept], atol=0, rtol=0)
    assert not torch.equal(after[2], before[2])


@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "recomputed"])
def test_a_row_of_4096_tokens_among_64_short_ones_runs_alone(recompute):
    short, budget = [row(f"t{i}", 60 + i % 5) for i in range(64)], 2048
    long = row("long", 4096)
    parts = split([*short, long], budget)
    assert [long] in parts
    padded = sum(len(part) * len(part[0].token_ids) for part in parts)
    assert padded < 1.05 * sum(len(example.token_ids) for example in [*short, long])
    model = build_model()
    trainer = Trainer(model, TrainerConfig(micro_batch_tokens=budget, gradient_checkpointing=recompute), total_steps=1)
    # twice the tokens of a full micro-batch, and not 65 times 4096
    assert peak(trainer, [*short, long]) < 2.3 * peak(trainer, short)


@pytest.mark.parametrize("autocast", [False, True], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("lora", [None, LoraConfig(rank=4)], ids=["full", "lora"])
@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "recomputed"])
def test_the_plan_is_near_what_a_step_takes(recompute, lora, autocast):
    model, rows = build_model(num_hidden_layers=4), [row(f"t{i}", 128) for i in range(8)]
    config = TrainerConfig(micro_batch_tokens=8 * 128, gradient_checkpointing=recompute, lora=lora)
    trainer = Trainer(model, config, total_steps=1, autocast=autocast)
    plan = trainer.plan_memory()
    planned = plan.gradients + plan.activations + plan.logits
    assert 0.6 * planned < peak(trainer, rows) < 1.3 * planned


def test_the_plan_counts_weights_moments_and_the_reference():
    model = build_model()
    size = FLOAT32 * sum(parameter.numel() for parameter in model.parameters())
    config = TrainerConfig.model_validate({"objective": {"kl_coef": 0.1}})
    plan = Trainer(model, config, reference=build_model()).plan_memory()
    assert (plan.weights, plan.gradients, plan.optimizer, plan.reference) == (size, size, 2 * size, size)
    lora = TrainerConfig.model_validate({"objective": {"kl_coef": 0.1}, "lora": {"rank": 2}})
    plan = Trainer(model, lora).plan_memory()
    assert plan.reference == 0
    assert 0 < plan.gradients < size / 4
    assert plan.weights == size + plan.gradients


def test_what_cannot_fit_is_refused_before_the_first_step(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "device_memory", lambda device: 10_000)
    with pytest.raises(UserError, match=r"does not fit .* of 0 MiB.*smaller policy.trainer.micro_batch_tokens"):
        service(tmp_path)


def test_a_gpu_that_is_full_is_a_mistake_with_an_advice(monkeypatch, tmp_path):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nAnd more")

    started = service(tmp_path)
    monkeypatch.setattr(started._trainer, "accumulate", full)
    with pytest.raises(UserError, match=r"batch of step 7 does not fit the GPU: CUDA.*2.00 GiB. What helps"):
        started._accumulate([], 7)
    monkeypatch.setattr("shared.policy.trainer_child.load_model", full)
    with pytest.raises(UserError, match=r"model .* does not fit the GPU"):
        service(tmp_path)


def test_the_memory_of_a_container_is_its_limit(monkeypatch, tmp_path):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "CGROUP", limit)
    whole = memory.device_memory(torch.device("cpu"))
    limit.write_text("max\n")
    assert memory.device_memory(torch.device("cpu")) == whole
    limit.write_text("123456789\n")
    assert memory.device_memory(torch.device("cpu")) == 123456789
