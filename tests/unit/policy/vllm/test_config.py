"""Combinations that mean nothing are refused by name."""

import pytest

from shared.config import parse
from shared.errors import UserError
from shared.policy.config import PolicyConfig

URL = {"url": "http://gpu:8000"}
PYTHON = {"python": "/vllm/bin/python"}


@pytest.mark.parametrize(
    ("tables", "names"),
    [
        ({"sampler": "vllm"}, "vllm.python"),
        ({"vllm": PYTHON}, 'sampler = "vllm"'),
        ({"sampler": "vllm", "vllm": {}}, "set one of the two"),
        ({"sampler": "vllm", "vllm": PYTHON | URL}, "set one of the two"),
        ({"sampler": "vllm", "vllm": URL}, "mirror_url"),
        ({"sampler": "vllm", "vllm": URL | {"folder": "/f", "mirror_url": "http://gpu:8790"}}, "mirror_url"),
        ({"sampler": "vllm", "vllm": URL | {"folder": "/f", "arguments": ["--x"]}}, "arguments"),
        ({"sampler": "vllm", "vllm": URL | {"folder": "/f", "mirror_key_file": "/k"}}, "mirror_key_file"),
        ({"sampler": "vllm", "vllm": PYTHON | {"folder": "/f"}}, "folder"),
        ({"sampler": "vllm", "vllm": PYTHON | {"arguments": ["--seed=3"]}}, "--seed"),
        ({"sampler": "vllm", "vllm": PYTHON | {"arguments": ["--model", "x"]}}, "--model"),
        ({"sampler": "vllm", "vllm": PYTHON | {"arguments": ["--logprobs_mode=raw_logprobs"]}}, "--logprobs_mode"),
        ({"sampler": "vllm", "seed": 1, "vllm": URL | {"folder": "/f"}}, "seed"),
        ({"sampler": "vllm", "cache_mib": 1, "vllm": URL | {"folder": "/f"}}, "cache_mib"),
    ],
)
def test_what_has_no_use_is_refused(tables, names):
    with pytest.raises(UserError, match=names):
        parse(PolicyConfig, {"model": "/model"} | tables)


@pytest.mark.parametrize(
    "vllm",
    [PYTHON | {"arguments": ["--tensor-parallel-size=2"]}, URL | {"folder": "/f"}, URL | {"mirror_url": "http://x"}],
)
def test_what_has_is_taken(vllm):
    assert parse(PolicyConfig, {"model": "/model", "sampler": "vllm", "vllm": vllm}).vllm
