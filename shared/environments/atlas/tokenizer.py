"""Word-level tokenizers of the demo's models: each fixed piece of the protocol is one token, and so is each name.

The pieces and the names are ordinary vocabulary, found by one regular expression (the longest piece first, then a run
of the characters that names are made of). Only the marks of the chat template are special tokens, added after the
vocabulary, so no text that a model or a tool renders can turn into one of them. The two roles of a pair have different
words; the one model of another team has those of both, thinking, and a sentence for each role.
"""

import random
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from shared.agents.loop import NOTICES
from shared.environments.atlas.articles import NOTHING
from shared.environments.atlas.instructions import TOLD
from shared.environments.atlas.world import ALL_RELATIONS, World

Speaker = Literal["planner", "executor", "one"]
"""Whose words they are: of a role of a pair, or of the one model of another team."""
UNKNOWN, PAD, USER, ASSISTANT, TOOL, END = "<unk>", "<pad>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>"
SPECIAL = (PAD, USER, ASSISTANT, TOOL, END)
SYSTEM = "<|system|>"
THINK, THINK_END = "<think>", "</think>"
CALL_END = '"}}</tool_call>'
RESULT_END = "</tool_response>"
MAX_TOKENS: dict[Speaker, int] = {"planner": 128, "executor": 128, "one": 256}
"""Context length in tokens; a single model has all hops in one conversation."""


class Vocabulary(NamedTuple):
    """The words of one speaker in the order of their ids; `names` is [first, last) of the names among them."""

    words: tuple[str, ...]
    names: tuple[int, int]


def call_start(tool: str, argument: str) -> str:
    """The piece that opens a call of `tool` whose one argument is `argument`."""
    return f'<tool_call>{{"name": "{tool}", "arguments": {{"{argument}": "'


def result_start(state: str) -> str:
    """The piece that opens a tool result."""
    return f'<tool_response state="{state}">'


def pieces(speaker: Speaker) -> tuple[str, ...]:
    """The fixed pieces of all texts that `speaker` reads and writes."""
    asked = [f"{relation} of " for relation in ALL_RELATIONS]
    labels = [f"{relation}: " for relation in ALL_RELATIONS]
    results = [result_start(state) for state in ("ok", "error", "timeout", "limit")] + [RESULT_END]
    common = (*asked, *labels, *results, CALL_END, "<answer>", "</answer>", NOTHING, *NOTICES.values())
    planner = (call_start("delegate", "task"), "name of ")
    executor = (call_start("search", "query"), call_start("open", "title"), "; ", ". ", ".")
    if speaker == "one":
        return (*common, *planner, *executor, THINK, THINK_END, *TOLD.values())
    return (*common, *(planner if speaker == "planner" else executor))


def vocabulary(world: World, speaker: Speaker, more: Sequence[str] = ()) -> Vocabulary:
    """Pieces and `more` of them, then the names in an order of the speaker's own, then the special tokens."""
    names = list(world.names)
    random.Random(speaker).shuffle(names)
    before = tuple(dict.fromkeys((UNKNOWN, *pieces(speaker), *more)))
    special = (*SPECIAL, SYSTEM) if speaker == "one" else SPECIAL
    return Vocabulary((*before, *names, *special), (len(before), len(before) + len(names)))


def _pattern(fixed: Sequence[str]) -> Regex:
    letters = "A-Za-z0-9/_-"
    longest_first = sorted(fixed, key=len, reverse=True)
    escaped = [re.escape(piece) + (f"(?![{letters}])" if piece[-1].isalpha() else "") for piece in longest_first]
    return Regex("|".join([*escaped, f"[{letters}]+(?: [{letters}]+)*"]))


def _template(speaker: Speaker) -> str:
    roles = ("user", "assistant", "tool", "system")[: 4 if speaker == "one" else 3]
    return (
        "{%- for message in messages -%}"
        f"{{%- if message.role not in {roles} -%}}"
        "{{ raise_exception('the atlas models know no ' ~ message.role ~ ' message') }}"
        "{%- endif -%}"
        "{{ '<|' ~ message.role ~ '|>' ~ message.content }}"
        "{%- if message.role == 'assistant' -%}{{ '<|end|>' }}{%- endif -%}"
        "{%- endfor -%}"
        "{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}"
    )


def build_tokenizer(world: World, speaker: Speaker, more: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """The tokenizer of `speaker`, with its chat template; `save_pretrained` makes a folder that AutoTokenizer reads."""
    words, (first, last) = vocabulary(world, speaker, more)
    ids = {word: place for place, word in enumerate(words[:last])}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(_pattern(words[1:first]), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    special = words[last:]
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in special])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=UNKNOWN,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[mark for mark in special if mark not in (PAD, END)],
        chat_template=_template(speaker),
        model_max_length=MAX_TOKENS[speaker],
        clean_up_tokenization_spaces=False,
    )
