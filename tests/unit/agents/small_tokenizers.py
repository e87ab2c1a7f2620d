"""Small real tokenizers: byte-level BPE with merges, and word-level with one token a piece of the protocol."""

import re
from functools import cache

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

CHATML = (
    "{%- for m in messages -%}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)
STRIPS_THINKING = (
    "{%- for m in messages -%}{%- set c = m['content'] -%}"
    "{%- if m['role'] == 'assistant' and not loop.last and '</think>' in c -%}"
    "{%- set c = c.split('</think>')[-1].lstrip('\n') -%}{%- endif -%}"
    "{{ '<|im_start|>' + m['role'] + '\n' + c + '<|im_end|>\n' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)
OPENS_THINKING = CHATML.replace("assistant\n' }}", "assistant\n<think>\n' }}")
NO_SYSTEM = "{%- if messages[0]['role'] == 'system' -%}{{ raise_exception('no system role') }}{%- endif -%}" + CHATML
NO_TOOL = "{%- for m in messages -%}{%- if m['role'] != 'tool' -%}" + CHATML.split("-%}", 1)[1].replace(
    "{%- endfor", "{%- endif -%}{%- endfor"
)
REFUSES_TOOL = CHATML.replace(
    "-%}", "-%}{%- if m['role'] == 'tool' -%}{{ raise_exception('only user and assistant') }}{%- endif -%}", 1
)
NO_END = CHATML.replace("<|im_end|>", "")
GROUPS_RESULTS = (
    "{%- for m in messages -%}{%- if m['role'] == 'tool' -%}"
    "{%- if messages[loop.index0 - 1]['role'] != 'tool' -%}{{ '<|im_start|>user' }}{%- endif -%}"
    "{{ '\n' + m['content'] }}"
    "{%- if loop.last or messages[loop.index0 + 1]['role'] != 'tool' -%}{{ '<|im_end|>\n' }}{%- endif -%}"
    "{%- else -%}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"
)
WORDS = (
    "{%- for m in messages -%}{%- if m['role'] == 'system' -%}{{ raise_exception('no system role') }}{%- endif -%}"
    "{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}"
)
PIECES = (
    *(f'<tool_response state="{state}">' for state in ("ok", "error", "timeout", "limit")),
    "</tool_response>",
    '<tool_call>{"name": "search", "arguments": {"query": "',
    '"}}</tool_call>',
    "<answer>",
    "</answer>",
)


@cache
def _bytes() -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|im_start|>", "<|im_end|>", "<|endoftext|>", "[INST]"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["the search tool_call answer Paris is the capital of France"] * 4, trainer)
    return tokenizer.to_str()


def byte_level(template: str | None = CHATML, eos: str | None = "<|im_end|>") -> PreTrainedTokenizerFast:
    backend = Tokenizer.from_str(_bytes())
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=eos, chat_template=template)


def word_level(pieces: tuple[str, ...] = PIECES, names: tuple[str, ...] = ("Paris", "New York")):
    words = ("<unk>", *pieces, *names)
    backend = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    pattern = "|".join([*map(re.escape, sorted(pieces, key=len, reverse=True)), "[A-Za-z]+(?: [A-Za-z]+)*"])
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    backend.decoder = decoders.Fuse()
    marks = ("<pad>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>")
    backend.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in marks])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>", eos_token="<|end|>", chat_template=WORDS
    )
