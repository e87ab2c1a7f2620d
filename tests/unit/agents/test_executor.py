"""What the executor answers, up to the bounds of its schema."""

from types import SimpleNamespace
from typing import Any

from shared.agents.executor import answer_of
from shared.agents.toolbox import MAX_CONTENT


def test_an_answer_without_end_is_cut():
    episode: Any = SimpleNamespace(answer="7" * 1_000_000, r_format=1, status="ok", turns=1)
    answer = answer_of(episode)
    assert answer.answer == "7" * MAX_CONTENT + " [cut]"
    assert answer.status == "ok"
