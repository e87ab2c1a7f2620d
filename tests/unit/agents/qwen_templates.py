"""Templates that behave like Qwen's published ones, as far as our conversations reach into them; written anew.

Both put the results of tools into user turns, consecutive ones into one. QWEN25 (as the Instruct models of 2507) leaves
an assistant's text alone. QWEN3, the hybrid one, rewrites the thinking after the last question, and drops it before.
"""

from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from tests.unit.agents.small_tokenizers import byte_level

_TOOL = """
{%- elif m.role == 'tool' -%}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}{{ '<|im_start|>user' }}{%- endif -%}
{{ '\\n<tool_response>\\n' + m.content + '\\n</tool_response>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}{{ '<|im_end|>\\n' }}{%- endif -%}
"""
_END = """
{%- endif -%}{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}
"""
_PLAIN = "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"

QWEN25 = (
    "{%- if messages[0].role != 'system' -%}{{ '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}{%- endif -%}"
    "{%- for m in messages -%}{%- if m.role != 'tool' -%}" + _PLAIN + _TOOL.strip("\n") + _END
)
QWEN3 = (
    "{%- set last = namespace(question=0) -%}"
    "{%- for m in messages -%}{%- if m.role == 'user' -%}{%- set last.question = loop.index0 -%}{%- endif -%}"
    "{%- endfor -%}"
    "{%- for m in messages -%}{%- if m.role in ('system', 'user') -%}"
    + _PLAIN
    + """
{%- elif m.role == 'assistant' -%}
{%- set said = m.content.split('</think>')[-1].lstrip('\\n') -%}
{%- set before = m.content.split('</think>')[0] if '</think>' in m.content else '' -%}
{%- set thought = before.split('<think>')[-1].strip('\\n') -%}
{{ '<|im_start|>assistant\\n' }}
{%- if loop.index0 > last.question and (loop.last or thought) -%}
{{ '<think>\\n' + thought + '\\n</think>\\n\\n' }}
{%- endif -%}
{{ said + '<|im_end|>\\n' }}
"""
    + _TOOL.strip("\n")
    + _END
)
WORDS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
"""Single tokens of Qwen's vocabularies, though not special ones."""


def qwen_tokenizer(template: str) -> PreTrainedTokenizerFast:
    """A small tokenizer with these words as single tokens; it ends a sequence with the end of a turn, as Qwen does."""
    tokenizer = byte_level(template)
    tokenizer.add_tokens([AddedToken(word, special=False, normalized=False) for word in WORDS])
    return tokenizer
