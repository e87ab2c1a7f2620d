"""One turn for each of a batch of prompts, in this process."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Generator
from transformers import PreTrainedModel

from shared.errors import UserError
from shared.policy.engine import Engine
from shared.policy.rows_attention import rows_attention
from shared.policy.turns import Prompt, Turn

CACHE_BYTES = 2**31
TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.2}


def sample(
    model: PreTrainedModel, prompts: Sequence[Prompt], temperature: float, generator: Generator | None = None
) -> list[Turn]:
    """One turn for each prompt, in their order, all at `temperature`; log-probs as of `draw.pick`."""
    with rows_attention(model):
        engine = Engine(model, len(prompts), CACHE_BYTES, generator)
        for place, prompt in enumerate(prompts):
            engine.add(place, replace(prompt, temperature=temperature))
        turns: dict[object, Turn] = {}
        while engine.unanswered:
            turns |= engine.step()
    return [turns[place] for place in range(len(prompts))]


def check_sampling(model: PreTrainedModel) -> None:
    """UserError where the engine's log-probs are not those of a plain forward pass: a model of another kind."""
    if "chunked_attention" in (getattr(model.config, "layer_types", None) or ()):
        raise UserError(f"the sampler cannot run {type(model).__name__}: it attends in chunks")
    words = model.config.vocab_size
    prompts = [Prompt([i * 7 % words for i in range(1, length)], 3, frozenset()) for length in (9, 2, 6)]
    try:
        turns = sample(model, prompts, 0.0)
    except (TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
        raise UserError(f"the sampler cannot run {type(model).__name__}: {error}") from None
    for prompt, turn in zip(prompts, turns, strict=True):
        with torch.inference_mode():
            ids = torch.tensor([prompt.token_ids + turn.token_ids], device=model.device)
            logits = model(input_ids=ids, use_cache=False).logits[0, len(prompt.token_ids) - 1 : -1]
        plain = logits.float().log_softmax(-1).gather(1, ids[0, len(prompt.token_ids) :, None])[:, 0]
        if (plain.cpu() - torch.tensor(turn.logprobs)).abs().max() > TOLERANCE[model.dtype]:
            raise UserError(f"the sampler cannot run {type(model).__name__}: its layers attend in a way of their own")
