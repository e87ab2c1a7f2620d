from pathlib import Path

import pytest

from shared.config import parse
from shared.errors import UserError
from shared.policy.config import PolicyConfig

REFUSED = [
    ({"modle": "m"}, "modle: unknown key"),
    ({"device": "tpu"}, "device"),
    ({"dtype": "float16"}, "dtype"),
    ({"temperature": 0.0}, "temperature"),
    ({"temperature": 1e-40}, "temperature"),
    ({"top_p": 0.9, "top_k": 50}, "top_k, top_p is not offered: the trainer's ratio"),
    ({"cache_mib": 0}, "cache_mib"),
    ({"trainer": {"lr": 0}}, "trainer.lr"),
    ({"trainer": {"momentum": 0.9}}, "trainer.momentum: unknown key"),
    ({"trainer": {"objective": {"ratio": "sequence", "kl_coef": 0.1}}}, "kl_coef"),
    ({"store": {"max_bytes": 1}}, "store.max_bytes"),
    ({"pool": {"samplers": 2}}, "samplers has no use with kind 'local'"),
    ({"pool": {"address": "auto"}}, "address has no use"),
    ({"pool": {"kind": "ray", "address": "ray://head:10001"}}, "pool.address"),
    ({"pool": {"kind": "ray"}}, "device"),
    ({"pool": {"kind": "ray"}, "device": "cuda:1"}, "device"),
    ({"pool": {"kind": "ray"}, "device": "cpu", "trainer": {"lora": {}}}, "trainer.lora"),
    ({"checkpoints": {"keep_last": 0}}, "checkpoints.keep_last"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_what_cannot_be_is_refused_by_name(change, message):
    with pytest.raises(UserError, match=message):
        parse(PolicyConfig, {"model": "m"} | change)


def test_only_the_model_is_needed():
    assert parse(PolicyConfig, {"model": "m"}).model == Path("m")


@pytest.mark.parametrize("file", sorted(Path("shared/policy").rglob("*.py")), ids=lambda path: path.name)
def test_no_file_of_ours_pickles(file):
    text = file.read_text()
    assert not [word for word in ("import pickle", "torch.save", "torch.load(", "joblib", "marshal") if word in text]
