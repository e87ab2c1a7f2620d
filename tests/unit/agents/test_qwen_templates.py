"""Which templates of the Qwen kind are accepted, and what is said of the others; docs/llm.md says the same."""

import pytest

from shared.agents.chat import ChatFormat
from shared.agents.protocol import Call, Calls, parse, render_call, render_result
from shared.environments.base import ToolResult
from shared.errors import UserError
from tests.integration.docs.markdown import ROOT, blocks
from tests.unit.agents.qwen_templates import QWEN3, QWEN25, qwen_tokenizer

(PLAIN,) = blocks(ROOT / "docs" / "llm.md", "jinja")
THOUGHTFUL = "<think>where?</think>\n" + render_call(Call("search", {"query": "Paris"}))


@pytest.mark.parametrize("template", [QWEN25, PLAIN.text], ids=["qwen2.5", "the one in docs/llm.md"])
def test_a_template_that_leaves_turns_alone_is_accepted(template: str):
    tokenizer = qwen_tokenizer(template)
    chat = ChatFormat(tokenizer)
    chat.check()
    assert chat.stop_ids == (tokenizer.convert_tokens_to_ids("<|im_end|>"),)
    assert isinstance(parse(chat.decode(chat.turn(THOUGHTFUL))), Calls)

    results = [render_result(ToolResult("ok", name)) for name in ("Paris", "Texas")]
    ids = [*chat.start("", "Where?"), *chat.turn(THOUGHTFUL), *chat.extend(results, closed=True)]
    messages = [{"role": "user", "content": "Where?"}, {"role": "assistant", "content": THOUGHTFUL}]
    messages += [{"role": "tool", "content": result} for result in results]
    whole = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == whole
    assert whole.count("<|im_start|>user") == 2  # the question, and both results together


def test_the_hybrid_one_is_refused_by_name():
    with pytest.raises(UserError, match="strips or rewrites earlier <think> text: the prefix would break"):
        ChatFormat(qwen_tokenizer(QWEN3)).check()


def test_what_it_would_break():
    """A turn that was sampled as it stands here is another text once the conversation goes on."""
    tokenizer = qwen_tokenizer(QWEN3)
    asked = [{"role": "user", "content": "Where?"}]
    begun = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    goes_on = [*asked, {"role": "assistant", "content": THOUGHTFUL}, {"role": "tool", "content": "Paris"}]
    assert not tokenizer.apply_chat_template(goes_on, tokenize=False).startswith(begun + THOUGHTFUL)
