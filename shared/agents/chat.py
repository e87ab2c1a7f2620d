"""Chat rendering that only ever appends ids, with the chat template of any Hugging Face tokenizer.

The template is rendered with marks in place of the contents. The text between the marks is the template's own, and its
special tokens are parsed; contents are encoded apart, and no text in them can become a special token. What follows an
assistant's turn is cut from a fixed conversation, so a trajectory is the first prompt, then, turn after turn, the ids
that were sampled and the ids that `extend` gives: nothing that stands is ever tokenised again.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from shared.agents.prompt import system_text
from shared.agents.protocol import Answer, parse, render_answer
from shared.errors import UserError

if TYPE_CHECKING:  # it would bring torch into every process that knows a server's routes
    from transformers import PreTrainedTokenizerBase

SYSTEM, USER, ASSISTANT, RESULT = "TandemMarkSystem", "TandemMarkUser", "TandemMarkAssistant", "TandemMarkResult{}x"
MARKS = re.compile(r"(TandemMark(?:System|User|Assistant|Result\d+x))")
STATES = ("ok", "error", "timeout", "limit")


class ChatFormat:
    """How one role's conversation becomes ids. `tool_schemas`, where given, are described in the system message."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", tool_schemas: Sequence[Mapping[str, Any]] = ()) -> None:
        self._tokenizer = tokenizer
        self._tool_schemas = tuple(tool_schemas)
        self._after_turn: dict[int, str] = {}
        self._opening_text: dict[bool, str] = {}
        self._template_ids: dict[str, list[int]] = {}

    @cached_property
    def end_of_turn(self) -> int:
        """The special token that the template puts after an assistant's turn; UserError where it puts none."""
        after, *_ = MARKS.split(self._text_after_turn(1))
        ids = self._encode_template(after)
        token = self._tokenizer.added_tokens_decoder.get(ids[0]) if ids else None
        if token is None or not token.special or ids[0] == self._tokenizer.unk_token_id:
            raise UserError(f"the chat template ends an assistant's turn with {after[:40]!r}, not with a special token")
        return ids[0]

    @cached_property
    def stop_ids(self) -> tuple[int, ...]:
        """A sampled turn ends at one of these: the end of turn, or the tokenizer's end of sequence."""
        eos = self._tokenizer.eos_token_id
        return (self.end_of_turn,) if eos in (None, self.end_of_turn) else (self.end_of_turn, eos)

    def system(self, instructions: str) -> str:
        """The system message: `instructions`, then the protocol and the tools; may be empty."""
        return system_text(instructions, self._tool_schemas)

    def start(self, system: str, user: str) -> list[int]:
        """The first prompt, up to where the assistant writes. `system` are the environment's instructions.

        An empty system message is not rendered; a template without a system role gets it before the user's text.
        """
        content = self.system(system)
        return self._encode(self._text_of_opening(bool(content)), {SYSTEM: content, USER: user})

    def extend(self, results: Sequence[str], closed: bool) -> list[int]:
        """What is appended after a sampled turn: the rendered `results`, then the next generation prompt.

        `closed`: the turn's last id is `end_of_turn`; if not (it was cut off), that id is part of what is appended.
        """
        contents = {RESULT.format(place): result for place, result in enumerate(results)}
        ids = self._encode(self._text_after_turn(len(results)), contents)
        return ids[1:] if closed else ids

    def turn(self, text: str) -> list[int]:
        """The ids of an assistant's turn that is given as text, a demonstration's, with its end of turn."""
        return [*self._encode_content(text), self.end_of_turn]

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of one sampled turn without the token that ended it; other special tokens stay visible."""
        body = token_ids[:-1] if token_ids and token_ids[-1] in self.stop_ids else token_ids
        text = self._tokenizer.decode(list(body), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return str(text)

    def check(self) -> None:
        """The self-test at start: UserError names what is wrong with the template or the tokenizer.

        Two tool turns with thinking must extend their own prefix exactly; the end of a turn must be a special token; an
        answer must survive the tokenizer and leave a mask that is not empty; each result state must be expressible.
        """
        self._check_prefix()
        answer = self.turn(render_answer("x"))
        if answer == [self.end_of_turn]:
            raise UserError("the tokenizer encodes an answer to no token at all: its mask would be empty")
        if not isinstance(parse(self.decode(answer)), Answer):
            raise UserError(
                f"the tokenizer cannot write the action protocol: an answer becomes {self.decode(answer)!r}"
            )
        for state in STATES:
            tag = f'<tool_response state="{state}">'
            if self._tokenizer.unk_token_id is not None and self._tokenizer.unk_token_id in self._encode_content(tag):
                raise UserError(f"the tokenizer has no token for {tag}")

    def _check_prefix(self) -> None:
        turns = [f"<think>thought {place}</think>\n<answer>{place}</answer>" for place in range(2)]
        messages, expected = self._opening(True), self._render(self._opening(True), generate=True)
        for place, turn in enumerate(turns):
            result = RESULT.format(place)
            messages += [_message("assistant", turn), _message("tool", result)]
            expected += turn + self._text_after_turn(1).replace(RESULT.format(0), result)
        whole = self._render(messages, generate=True)
        if whole == expected:
            return
        if turns[0] not in whole:
            raise UserError("the chat template strips or rewrites earlier <think> text: the prefix would break")
        same = next((i for i, (a, b) in enumerate(zip(whole, expected, strict=False)) if a != b), len(expected))
        raise UserError(
            "the chat template breaks the prefix: a longer conversation does not begin with the shorter one; "
            f"it has {whole[same : same + 40]!r} where {expected[same : same + 40]!r} stood"
        )

    @cached_property
    def _has_system_role(self) -> bool:
        try:
            return SYSTEM in self._render([_message("system", SYSTEM), _message("user", USER)], generate=True)
        except UserError:
            return False

    def _opening(self, system: bool) -> list[dict[str, str]]:
        if not system:
            return [_message("user", USER)]
        if self._has_system_role:
            return [_message("system", SYSTEM), _message("user", USER)]
        return [_message("user", f"{SYSTEM}\n\n{USER}")]

    def _text_of_opening(self, system: bool) -> str:
        """The template's text up to where the assistant writes first, with marks for the contents."""
        if system not in self._opening_text:
            rendered = self._render(self._opening(system), generate=True)
            marks = [SYSTEM, USER] if system else [USER]
            self._opening_text[system] = _with_marks(rendered, marks, "a user's message")
        return self._opening_text[system]

    def _text_after_turn(self, results: int) -> str:
        """The template's text from the end of an assistant's turn on, with marks for that many results."""
        if results not in self._after_turn:
            marks = [RESULT.format(place) for place in range(results)]
            messages = [_message("user", USER), _message("assistant", ASSISTANT)]
            rendered = self._render(messages + [_message("tool", mark) for mark in marks], generate=True)
            _with_marks(rendered, [USER, ASSISTANT, *marks], "a tool's message after an assistant's (no tool role?)")
            self._after_turn[results] = rendered.partition(ASSISTANT)[2]
        return self._after_turn[results]

    def _render(self, messages: list[dict[str, str]], *, generate: bool) -> str:
        if not self._tokenizer.chat_template:
            raise UserError("the tokenizer has no chat template")
        try:
            text = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=generate)
        except (TemplateError, ValueError) as error:
            roles = ", ".join(message["role"] for message in messages)
            raise UserError(f"the chat template refuses the messages {roles}: {error}") from None
        return str(text)

    def _encode(self, rendered: str, contents: Mapping[str, str]) -> list[int]:
        parts = [part for part in MARKS.split(rendered) if part]
        encoded = (
            self._encode_content(contents[part]) if part in contents else self._encode_template(part) for part in parts
        )
        return [token for ids in encoded for token in ids]

    def _encode_template(self, text: str) -> list[int]:
        """The template's own text recurs every turn, so its ids are kept."""
        if text not in self._template_ids:
            self._template_ids[text] = list(self._tokenizer.encode(text, add_special_tokens=False))
        return self._template_ids[text]

    def _encode_content(self, text: str) -> list[int]:
        """No text becomes a special token; a lone surrogate, which no tokenizer takes, becomes a question mark."""
        clean = text.encode("utf-8", "replace").decode()
        return list(self._tokenizer.encode(clean, add_special_tokens=False, split_special_tokens=True))


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _with_marks(rendered: str, marks: list[str], what: str) -> str:
    """`rendered`, in which each mark stands once and in order; UserError names what the template does not render."""
    if MARKS.findall(rendered) != marks:
        raise UserError(f"the chat template does not render {what} once, as it is")
    return rendered
