"""A trivial environment for tests, with models that nobody has trained and that speak the action protocol all the same.

Every word of the two vocabularies is either a whole action (`<answer>3</answer>`, a whole call, two equal calls) or a
piece that is none; after an action the turn ends. So a random model emits valid protocol with a probability that `bias`
sets, and the rewards depend on the parity of what it sampled: its groups are live.
"""

import asyncio
import math
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from shared.environments.base import Environment, Split, Task, ToolContext, ToolError, Trace, tool
from shared.schemas import Role

NUMBERS = range(8)
UNKNOWN, PAD, USER, ASSISTANT, TOOL, END = "<unk>", "<pad>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>"
SPECIAL = (PAD, USER, ASSISTANT, TOOL, END)
TEMPLATE = (
    "{%- for m in messages -%}{{ '<|' ~ m.role ~ '|>' ~ m.content }}"
    "{%- if m.role == 'assistant' -%}{{ '<|end|>' }}{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}"
)
BIAS_STRENGTH = 4.0
"""What a bias of 1 adds to a token's logit, about."""
END_STRENGTH = 30.0


class Parity(Environment):
    """Task i asks for the parity of i. The executor's answer is judged by its own parity."""

    name = "parity"
    describe_tools = False

    def task(self, split: Split, seed: int, index: int) -> Task:
        return Task(f"{split}-{seed}-{index}", "2", str(index % 2), {"kind": "even" if index % 2 == 0 else "odd"})

    @tool
    def echo(self, context: ToolContext, text: str) -> str:
        """The text itself."""
        return text

    def correctness(self, task: Task, answer: str) -> float:
        return float(answer.isdigit() and int(answer) % 2 == int(task.answer))

    def expert_score(self, trace: Trace) -> float:
        return float(trace.answer.isdigit() and int(trace.answer) % 2 == 0)


class OneVocabulary(Parity):
    """The tool is called as the planner delegates: one model has the words of a whole team."""

    name = "one-vocabulary"

    @tool
    def delegate(self, context: ToolContext, task: str) -> str:
        """The text itself."""
        return task


class Stubborn(Parity):
    """The tool fails for `1`, gives up in time for `2`, and never returns for `3`."""

    name = "stubborn"

    @tool
    async def echo(self, context: ToolContext, text: str) -> str:
        """The text itself, or not."""
        if text == "1":
            raise ToolError("no")
        if text == "2":
            raise TimeoutError
        if text == "3":
            await asyncio.Event().wait()
        return text


class Poisoned(Parity):
    """One of the judgements is no number."""

    name = "poisoned"

    def __init__(self, judgement: str) -> None:
        self._judgement = judgement

    def correctness(self, task: Task, answer: str) -> float:
        return math.nan if self._judgement == "correctness" else super().correctness(task, answer)

    def expert_score(self, trace: Trace) -> float:
        return math.nan if self._judgement == "expert_score" else super().expert_score(trace)


def answer(number: object) -> str:
    """The word that answers."""
    return f"<answer>{number}</answer>"


def call(role: Role, text: object) -> str:
    """The word that delegates (the planner's), or calls the tool (the executor's)."""
    name, argument = ("delegate", "task") if role == "planner" else ("echo", "text")
    return f'<tool_call>{{"name": "{name}", "arguments": {{"{argument}": "{text}"}}}}</tool_call>'


def twice(role: Role, text: object) -> str:
    """The word that makes two equal calls in one turn."""
    return call(role, text) * 2


LONG = "01234567" * 5
"""A text of 40 tokens."""
MALFORMED = '<tool_call>{"name": "delegate", "arguments": </tool_call>'
STRANGER = '<tool_call>{"name": "fly", "arguments": {}}</tool_call>'


def words(role: Role) -> list[str]:
    """The role's vocabulary in the order of ids; the executor's is larger, and in another order."""
    actions = [answer(number) for number in [*NUMBERS, "x"]]
    actions += [call(role, number) for number in NUMBERS[:4]] + [call(role, LONG), twice(role, 0), MALFORMED, STRANGER]
    pieces = [f'<tool_response state="{state}">' for state in ("ok", "error", "timeout", "limit")]
    pieces += ["</tool_response>", *map(str, NUMBERS)]
    if role == "executor":
        pieces = ["piece", *reversed(pieces)]
    return [UNKNOWN, *actions, *pieces] if role == "planner" else [UNKNOWN, *pieces, *actions]


def build_tokenizer(role: Role, template: str = TEMPLATE) -> PreTrainedTokenizerFast:
    """The role's tokenizer: the longest word first, whatever is none is unknown."""
    vocabulary = words(role)
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token=UNKNOWN))
    longest_first = sorted(vocabulary[1:], key=len, reverse=True)
    pattern = Regex("|".join(re.escape(word) for word in longest_first))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(pattern, behavior="isolated")  # ty: ignore[invalid-assignment]
    tokenizer.decoder = decoders.Fuse()  # ty: ignore[invalid-assignment]
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=UNKNOWN,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[USER, ASSISTANT, TOOL],
        chat_template=template,
    )


def save_model(
    folder: Path,
    role: Role,
    bias: Mapping[str, float] | None = None,
    *,
    template: str = TEMPLATE,
    seed: int = 0,
    hidden_size: int | None = None,
    layers: int = 1,
) -> Path:
    """A random Llama, of some 20,000 parameters if nothing else is said, with the role's tokenizer.

    `bias` raises words' probabilities.
    """
    tokenizer = build_tokenizer(role, template)
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size or (32 if role == "planner" else 40),
        intermediate_size=2 * (hidden_size or 32),
        num_hidden_layers=layers,
        num_attention_heads=4,
        max_position_embeddings=256,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    ids = {word: tokenizer.convert_tokens_to_ids(word) for word in words(role)}
    actions = [id_ for word, id_ in ids.items() if word.startswith(("<answer>", "<tool_call>"))]
    _add_bias(model, {ids[word]: value for word, value in (bias or {}).items()}, actions, tokenizer.eos_token_id)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _add_bias(model: LlamaForCausalLM, bias: Mapping[int, float], actions: list[int], end: int) -> None:
    """Dimension 0 of every token's state is one large constant, from which the head reads a word's bias.

    Dimension 1 is as large for actions alone, and from it the head reads that the turn ends.
    """
    with torch.no_grad():
        size = model.config.hidden_size
        large = size**0.5  # and after the norm about as large, as all other dimensions are small
        embedding, head = model.model.embed_tokens.weight, model.lm_head.weight
        embedding[:, :2] = 0.0
        embedding[:, 0] = large
        embedding[actions, 1] = large
        head[:, :2] = 0.0
        head[end, 1] = END_STRENGTH / large
        for token, value in bias.items():
            head[token, 0] = value * BIAS_STRENGTH / large
