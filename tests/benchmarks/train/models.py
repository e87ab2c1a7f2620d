"""The two models that the benchmark trains, and the log-probs that they would have recorded when they sampled."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from shared.cli.demo_llm.smollm2 import fetch
from shared.policy.logprobs import trained_logprobs
from shared.policy.model import load_model
from tests.benchmarks.train.batch import make
from tests.benchmarks.train.rows import Row
from tests.benchmarks.train.shape import Part

SMOLLM2 = Path(__file__).parents[3] / "runs" / "models" / "smollm2"
VOCABULARY = 256
GAP = 0.1
"""How far the policy has moved since it sampled: the deviation of a token's log-prob."""


def save_small(folder: Path) -> Path:
    """A random model of 1.1M parameters: width 128, 4 layers, a vocabulary of bytes."""
    torch.manual_seed(0)
    shape = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=VOCABULARY, max_position_embeddings=1024, pad_token_id=0, **shape)
    LlamaForCausalLM(config).save_pretrained(folder)
    words = Tokenizer(WordLevel({f"<{byte}>": byte for byte in range(VOCABULARY)}, unk_token="<2>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<0>", eos_token="<1>", unk_token="<2>")
    tokenizer.save_pretrained(folder)
    return folder


def smollm2() -> Path:
    """SmolLM2-135M-Instruct, fetched and converted on the first call."""
    return asyncio.run(fetch(SMOLLM2))


@torch.no_grad()
def sampled_rows(folder: Path, part: Part) -> list[Row]:
    """The rows of a batch, with their log-probs under that model, each off by a little: some ratios are clipped."""
    model = load_model(folder, torch.device("cpu"))
    found = []
    for row in make(part, model.config.vocab_size):
        rng = random.Random(row.id)
        now = trained_logprobs(model, torch.tensor([row.token_ids]), torch.tensor([row.mask]), 1.0)[0].tolist()
        found.append(replace(row, logprobs=[(x + rng.gauss(0, GAP)) * m for x, m in zip(now, row.mask, strict=True)]))
    return found


if __name__ == "__main__":
    smollm2()
