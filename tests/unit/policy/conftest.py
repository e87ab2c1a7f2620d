"""A Llama of about 50,000 parameters with a word-level tokenizer, as a Hugging Face folder."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from shared.ids import new_id
from shared.policy.config import PolicyConfig
from shared.policy.types import Trajectory
from shared.schemas import PolicyVersion
from shared.schemas.stream import Ack

WORDS = 64
STOP = 1


def build_model(*, tied: bool = True, seed: int = 0, **config: object) -> LlamaForCausalLM:
    """Random weights, large enough that tokens differ in probability."""
    torch.manual_seed(seed)
    shape = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    settings = {"vocab_size": WORDS, "max_position_embeddings": 128, "initializer_range": 0.2, "pad_token_id": 0}
    settings |= {"tie_word_embeddings": tied, "attn_implementation": "sdpa", "bos_token_id": None, "eos_token_id": STOP}
    return LlamaForCausalLM(LlamaConfig(**shape | settings | config)).eval()


def save_model(folder: Path, **config: object) -> Path:
    """A model folder with its tokenizer."""
    build_model(**config).save_pretrained(folder)
    vocabulary = {"<pad>": 0, "<end>": STOP} | {f"w{i}": i for i in range(2, WORDS)}
    words = Tokenizer(WordLevel(vocabulary, unk_token="<pad>"))
    words.pre_tokenizer = WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<end>").save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    return save_model(tmp_path / "model")


@pytest.fixture
def config(model_folder: Path) -> PolicyConfig:
    trainer = {"lr": 1e-2, "warmup_steps": 0}
    return PolicyConfig.model_validate({"model": model_folder, "device": "cpu", "threads": 1, "trainer": trainer})


@pytest.fixture
def make_trajectory() -> Callable[..., Trajectory]:
    """A trajectory of random ids: a prompt, a sampled turn, a tool's answer, a sampled turn."""
    generator = torch.Generator().manual_seed(7)

    def make(length: int = 12, **changes: object) -> Trajectory:
        ids = torch.randint(2, WORDS, (length,), generator=generator).tolist()
        mask = [int(i > 2 and i % 5 != 0) for i in range(length)]
        logprobs = [float(-1 - i % 3) if trained else 0.0 for i, trained in enumerate(mask)]
        version = PolicyVersion(epoch=1, step=0, updates=0)
        fields = {"id": new_id(), "run": "r", "role": "executor", "token_ids": ids, "mask": mask, "logprobs": logprobs}
        return Trajectory(**fields | {"version": version} | changes)

    return make


@pytest.fixture
def ack() -> Callable[[int], Ack]:
    return lambda step: Ack(epoch=3, step=step, outcome="trained", updates=step, fates={new_id(): 2, new_id(): "stale"})
