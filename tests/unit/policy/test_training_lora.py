"""LoRA in the trainer's process: what is trained, what leaves it, and what it resumes from."""

import pytest
import torch
from safetensors.torch import load_file

from shared.errors import InvalidInput, UserError
from shared.policy.adapters import adapter_state
from shared.policy.config import LoraConfig, TrainerConfig
from shared.policy.model import load_model
from shared.policy.trainer_child import TrainerService
from shared.policy.training import Trainer

from .test_training import examples
from .tiny import build_model, save_model

CPU = torch.device("cpu")
LORA = {"rank": 4}
TOKENS = torch.tensor([[5, 9, 2, 33, 8, 41]])


def service(model, tmp_path, dtype="float32", lora=LORA, **trainer):
    settings = {"lr": 1e-2, "warmup_steps": 0, **trainer} | ({"lora": lora} if lora else {})
    common = {"device": "cpu", "threads": 1, "temperature": 1.0, "total_steps": 10, "store": str(tmp_path / "none")}
    return TrainerService(common | {"model": str(model), "dtype": dtype, "trainer": settings})


def train(service, *steps):
    for step in steps:
        service._trainer.accumulate(examples(seed=step), step)
        service._trainer.apply(step)


def save(service, folder):
    folder.mkdir()
    return service._save(str(folder))


@pytest.fixture(params=[True, False], ids=["tied", "untied"])
def model(request, tmp_path):
    return save_model(tmp_path / "model", tied=request.param)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_only_adapters_move_and_the_merged_folder_is_a_plain_model(model, tmp_path, dtype):
    trained = service(model, tmp_path, dtype)
    base = {name: tensor.clone() for name, tensor in trained._trainer.model.state_dict().items()}
    train(trained, 1, 2)
    moved = {
        name for name, tensor in trained._trainer.model.state_dict().items() if not torch.equal(tensor, base[name])
    }
    assert moved == adapter_state(trained._trainer.model).keys()
    (tmp_path / "out").mkdir()
    trained._export(str(tmp_path / "out"))
    plain = load_file(model / "model.safetensors")
    merged = load_file(tmp_path / "out/model.safetensors")
    assert {name: tensor.shape for name, tensor in merged.items()} == {name: t.shape for name, t in plain.items()}
    with torch.no_grad():
        found = load_model(tmp_path / "out", CPU)(TOKENS).logits
        expected = trained._trainer.model(TOKENS).logits.float()
    torch.testing.assert_close(found, expected, atol=1e-4 if dtype == "float32" else 0.2, rtol=0.05)


def test_resuming_is_bit_exact(model, tmp_path):
    unbroken = service(model, tmp_path)
    train(unbroken, 1, 2, 3, 4)
    first = service(model, tmp_path)
    train(first, 1, 2)
    checksum = save(first, tmp_path / "checkpoint")
    second = service(model, tmp_path)
    train(second, 1)
    second._restore(str(tmp_path / "checkpoint"), checksum)
    train(second, 3, 4)
    assert save(second, tmp_path / "a") == save(unbroken, tmp_path / "b")
    a, b = (load_file(tmp_path / name / "optimizer.safetensors") for name in "ab")
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_the_start_of_a_run_is_the_same_each_time(model, tmp_path):
    once, again = service(model, tmp_path), service(model, tmp_path)
    train(once, 1)
    once._restore(None, None)
    train(once, 2)
    train(again, 2)
    assert save(once, tmp_path / "a") == save(again, tmp_path / "b")


def test_a_checkpoint_of_another_kind_is_refused(model, tmp_path):
    whole, small, large = (service(model, tmp_path, lora=False), service(model, tmp_path), service(model, tmp_path))
    other = TrainerService(
        {"device": "cpu", "threads": 1, "temperature": 1.0, "total_steps": 10, "store": "", "model": str(model)}
        | {"dtype": "float32", "trainer": {"lora": {"rank": 2}}}
    )
    train(whole, 1)
    train(small, 1)
    save(whole, tmp_path / "whole")
    save(small, tmp_path / "small")
    for trainer, folder in ((whole, "small"), (large, "whole"), (other, "small")):
        with pytest.raises(UserError, match=r"policy\.trainer\.lora"):
            trainer._restore(str(tmp_path / folder), None)


def test_a_checkpoint_of_another_scale_or_base_is_refused(model, tmp_path):
    first = service(model, tmp_path, lora=LORA | {"alpha": 8.0})
    train(first, 1)
    save(first, tmp_path / "saved")
    with pytest.raises(UserError, match=r"policy\.trainer\.lora\.alpha"):
        service(model, tmp_path)._restore(str(tmp_path / "saved"), None)
    other = service(save_model(tmp_path / "other", seed=1), tmp_path, lora=LORA | {"alpha": 8.0})
    with pytest.raises(UserError, match=r"not of this policy\.model"):
        other._restore(str(tmp_path / "saved"), None)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (("q_proj", "nope"), "no layer nope"),
        (("lm_head",), "lm_head"),
        (("embed_tokens",), "embed_tokens"),
        (("norm",), "RMSNorm"),
    ],
)
def test_targets_that_cannot_be_are_named(targets, message):
    with pytest.raises(UserError, match=rf"target_modules.*{message}"):
        Trainer(build_model(tied=False), TrainerConfig(lora=LoraConfig(target_modules=targets)))


def test_the_reference_is_the_base(model, tmp_path):
    trainer = service(model, tmp_path, objective={"kl_coef": 0.1})._trainer
    assert trainer.accumulate(examples(), 1)["kl"] == 0
    trainer.apply(1)
    assert trainer.accumulate(examples(), 2)["kl"] > 1e-4
    with pytest.raises(InvalidInput, match="reference"):
        Trainer(build_model(), trainer.config, reference=build_model())


def test_frozen_embedding_rows_are_frozen_with_the_base():
    model = build_model(frozen_embedding_rows=[10, 50])
    before = model.get_input_embeddings().weight.detach().clone()
    trainer = Trainer(model, TrainerConfig(lr=1e-2, lora=LoraConfig(rank=2)), total_steps=2)
    trainer.accumulate(examples(), 1)
    trainer.apply(1)
    assert torch.equal(model.get_input_embeddings().weight, before)
