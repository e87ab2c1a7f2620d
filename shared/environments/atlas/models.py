"""The demo's models: Llama architecture from scratch, two layers, float32, tied embeddings.

They must copy names that no demonstration held, and look up the name beside a key. So their start is chosen; everything
but the first stays trainable:

* the rows of the names stay random, as the configuration's `frozen_embedding_rows` [first, last) tells every trainer:
  an unseen name is then as easy to copy as a seen one;
* embeddings share a constant component, which makes attention by position easy, and one that tells names from protocol;
* head 0 of layer 0 starts as a previous-token head: its queries and keys are constant, and the rotary embedding turns
  them so that they agree one place apart; what it reads it writes back, in a subspace drawn at random;
* in layer 1 keys start equal to queries, so each token looks for its like: together the two are the beginning of an
  induction head, which finds the place after an earlier occurrence. From a start without them the look-up comes later,
  and often with two of the keys confused, a saddle that takes hundreds of steps to leave.
"""

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from shared.environments.atlas.tokenizer import END, MAX_TOKENS, PAD, Speaker, Vocabulary

HIDDEN: dict[Speaker, int] = {"planner": 96, "executor": 128, "one": 168}
"""The one model of a team has as many parameters as a pair's two together: no pair is ahead by its size."""
HEADS = 4
ROPE_THETA = 10_000.0
INITIAL_STD, EMBEDDING_STD = 0.08, 0.2
SHARED_DIMENSIONS, SHARED_VALUE = 4, 0.5
PREVIOUS_TOKEN_SHARPNESS = 50.0


def build_model(speaker: Speaker, vocabulary: Vocabulary) -> LlamaForCausalLM:
    """A fresh model of `speaker`, drawn from torch's global generator."""
    words, names = vocabulary
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=HIDDEN[speaker],
        intermediate_size=2 * HIDDEN[speaker],
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=MAX_TOKENS[speaker],
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        tie_word_embeddings=True,
        pad_token_id=words.index(PAD),
        bos_token_id=None,
        eos_token_id=words.index(END),
        initializer_range=INITIAL_STD,
        attention_bias=True,
        dtype="float32",
    )
    config.frozen_embedding_rows = list(names)
    model = LlamaForCausalLM(config)
    _set_embeddings(model.model.embed_tokens.weight, names)
    first, second = (layer.self_attn for layer in model.model.layers)
    _set_previous_token_head(first, model.config.hidden_size)
    _set_keys_to_queries(second)
    return model


@torch.no_grad()
def _set_embeddings(weight: torch.Tensor, names: tuple[int, int]) -> None:
    first, last = names
    weight.normal_(0, EMBEDDING_STD)
    weight[:, :SHARED_DIMENSIONS] = SHARED_VALUE
    weight[:, SHARED_DIMENSIONS : 2 * SHARED_DIMENSIONS] = SHARED_VALUE
    weight[first:last, SHARED_DIMENSIONS : 2 * SHARED_DIMENSIONS] = -SHARED_VALUE


@torch.no_grad()
def _set_previous_token_head(attention: Any, hidden: int) -> None:
    size = hidden // HEADS
    half = size // 2
    turn = ROPE_THETA ** (-torch.arange(half) / half)  # radians per position of each rotary pair
    scale = PREVIOUS_TOKEN_SHARPNESS**0.5
    for projection in (attention.q_proj, attention.k_proj):
        projection.weight[:size] = 0
    attention.q_proj.bias[:half], attention.q_proj.bias[half:size] = scale, 0
    attention.k_proj.bias[:half], attention.k_proj.bias[half:size] = scale * turn.cos(), scale * turn.sin()
    subspace, _ = torch.linalg.qr(torch.randn(hidden, size))
    attention.v_proj.weight[:size] = subspace.T
    attention.o_proj.weight[:, :size] = subspace


@torch.no_grad()
def _set_keys_to_queries(attention: Any) -> None:
    attention.k_proj.weight.copy_(attention.q_proj.weight)
