"""A Llama of about 50,000 parameters with a word-level tokenizer, as a Hugging Face folder."""

from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = 64
STOP = 1


def build_model(*, tied: bool = True, seed: int = 0, **config: object) -> LlamaForCausalLM:
    """Random weights, large enough that tokens differ in probability."""
    torch.manual_seed(seed)
    shape = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape["head_dim"] = 32  # the least that vLLM has on a CPU
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
