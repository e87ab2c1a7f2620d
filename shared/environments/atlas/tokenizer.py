"""Word-level tokenizers of the two demo models: each fixed piece of the protocol is one token, and so is each name.

The pieces and the names are ordinary vocabulary, found by one regular expression (the longest piece first, then a run
of the characters that names are made of). Only the marks of the chat template are special tokens, added after the
vocabulary, so no text that a model or a tool renders can turn into one of them. The two roles have different words.
"""

import random
import re
from typing import NamedTuple

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from shared.agents.loop import NOTICES
from shared.environments.atlas.articles import NOTHING
from shared.environments.atlas.world import ALL_RELATIONS, World
from shared.schemas.base import Role

UNKNOWN, PAD, USER, ASSISTANT, TOOL, END = "<unk>", "<pad>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>"
SPECIAL = (PAD, USER, ASSISTANT, TOOL, END)
CALL_END = '"}}</tool_call>'
RESULT_END = "</tool_response>"
MAX_TOKENS = 128
"""Context length of the demo models, in tokens."""

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message.role not in ('user', 'assistant', 'tool') -%}"
    "{{ raise_exception('the atlas models know no ' ~ message.role ~ ' message') }}"
    "{%- endif -%}"
    "{{ '<|' ~ message.role ~ '|>' ~ message.content }}"
    "{%- if message.role == 'assistant' -%}{{ '<|end|>' }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}"
)


class Vocabulary(NamedTuple):
    """The words of one role in the order of their ids; `names` is [first, last) of the names among them."""

    words: tuple[str, ...]
    names: tuple[int, int]


def call_start(tool: str, argument: str) -> str:
    """The piece that opens a call of `tool` whose one argument is `argument`."""
    return f'<tool_call>{{"name": "{tool}", "arguments": {{"{argument}": "'


def result_start(state: str) -> str:
    """The piece that opens a tool result."""
    return f'<tool_response state="{state}">'


def pieces(role: Role) -> tuple[str, ...]:
    """The fixed pieces of all texts that `role` reads and writes."""
    asked = [f"{relation} of " for relation in ALL_RELATIONS]
    labels = [f"{relation}: " for relation in ALL_RELATIONS]
    results = [result_start(state) for state in ("ok", "error", "timeout", "limit")] + [RESULT_END]
    common = [*asked, *labels, *results, CALL_END, "<answer>", "</answer>", NOTHING, *NOTICES.values()]
    if role == "planner":
        return (*common, call_start("delegate", "task"), "name of ")
    return (*common, call_start("search", "query"), call_start("open", "title"), "; ", ". ", ".")


def vocabulary(world: World, role: Role) -> Vocabulary:
    """Pieces, then the names in an order of the role's own, then the special tokens."""
    names = list(world.names)
    random.Random(role).shuffle(names)
    before = (UNKNOWN, *pieces(role))
    return Vocabulary((*before, *names, *SPECIAL), (len(before), len(before) + len(names)))


def _pattern(role: Role) -> Regex:
    letters = "A-Za-z0-9/_-"
    longest_first = sorted(pieces(role), key=len, reverse=True)
    fixed = [re.escape(piece) + (f"(?![{letters}])" if piece[-1].isalpha() else "") for piece in longest_first]
    return Regex("|".join([*fixed, f"[{letters}]+(?: [{letters}]+)*"]))


def build_tokenizer(world: World, role: Role) -> PreTrainedTokenizerFast:
    """The tokenizer of `role`, with its chat template; `save_pretrained` makes a folder that AutoTokenizer reads."""
    words, (_, last) = vocabulary(world, role)
    ids = {word: place for place, word in enumerate(words[:last])}
    tokenizer = Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(_pattern(role), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=UNKNOWN,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[USER, ASSISTANT, TOOL],
        chat_template=CHAT_TEMPLATE,
        model_max_length=MAX_TOKENS,
        clean_up_tokenization_spaces=False,
    )
