"""What is sampled: models of random weights, and conversations of three turns with random ids."""

import random
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

MODELS = {
    "demo": {
        "vocab_size": 1206,
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    },
    "small": {
        "vocab_size": 259,
        "hidden_size": 128,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
    },
    "smollm2": {
        "vocab_size": 49152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
    },
}
"""The demo's; one of 1M parameters over bytes; and one as large as SmolLM2-135M."""
TURNS = 3
CONCURRENCY = (1, 8, 64)


@dataclass(frozen=True, slots=True)
class Shape:
    """Each turn of a conversation adds `prompt` ids (`mixed`: 1 to twice as many) and samples `new` tokens.

    `alone`: conversations that are measured one at a time, and all of those at concurrency 1.
    """

    name: str
    models: tuple[str, ...]
    prompt: int
    new: int
    alone: int
    repeats: int


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("full", ("demo", "small"), prompt=64, new=32, alone=2, repeats=3),
        Shape("smollm2", ("smollm2",), prompt=48, new=12, alone=1, repeats=1),
        Shape("quick", ("small",), prompt=32, new=16, alone=1, repeats=2),
        Shape("smallest", ("demo",), prompt=4, new=2, alone=1, repeats=1),
    )
}


def build(name: str, folder: Path) -> LlamaForCausalLM:
    """The model, saved in `folder`, too."""
    torch.manual_seed(0)
    config = LlamaConfig(
        **MODELS[name], max_position_embeddings=1024, tie_word_embeddings=True, bos_token_id=None, eos_token_id=None
    )
    model = LlamaForCausalLM(config).eval()
    model.save_pretrained(folder)
    words = {f"w{id}": id for id in range(MODELS[name]["vocab_size"])}
    tokenizer = Tokenizer(WordLevel(words, unk_token="w0"))  # vLLM serves no model without one
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="w0").save_pretrained(folder)
    return model


def conversations(model: str, shape: Shape, count: int, *, mixed: bool, seed: int) -> list[list[list[int]]]:
    """For each conversation, the ids that each of its turns adds before it samples."""
    rng = random.Random(seed)
    words = MODELS[model]["vocab_size"]

    def added() -> list[int]:
        length = rng.randint(1, 2 * shape.prompt - 1) if mixed else shape.prompt
        return [rng.randrange(words) for _ in range(length)]

    return [[added() for _ in range(TURNS)] for _ in range(count)]
