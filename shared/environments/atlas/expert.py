"""The expert score of an invocation, from its trace alone: did it open the right article, and read the right line?"""

import re
from collections.abc import Iterable, Mapping

from shared.environments.atlas.articles import parse_article
from shared.environments.base import Trace

ArticleFacts = Mapping[str, str]


def matcher(words: Iterable[str]) -> re.Pattern[str]:
    """Finds any of `words` as whole words, the longest that fits first."""
    longest_first = sorted(words, key=len, reverse=True)
    return re.compile(r"(?<![\w/-])(?:" + "|".join(map(re.escape, longest_first)) + r")(?![\w/-])", re.IGNORECASE)


def opened_articles(trace: Trace) -> dict[str, ArticleFacts]:
    """The articles that the trace's own results show, by title."""
    opened = (c for c in trace.calls if c.name == "open" and c.result.state == "ok")
    return dict(parse_article(call.result.content) for call in opened)


def read_answer(answer: str, relations: Iterable[str]) -> tuple[str | None, str]:
    """Relation (None where it names none) and value of an answer such as `country: France` or `France`."""
    label, colon, value = answer.strip().removesuffix(".").partition(": ")
    return (label, value) if colon and label in relations else (None, answer.strip().removesuffix("."))


def names_opened_article(trace: Trace, titles: re.Pattern[str]) -> bool:
    """It opened an article whose title the subtask names."""
    named = {title.casefold() for title in titles.findall(trace.subtask)}
    return any(title.casefold() in named for title in opened_articles(trace))


def answer_stands(trace: Trace, relations: Iterable[str], relation: str | None) -> bool:
    """The answer stands in an opened article: in the line of `relation`, or, if that is None, in any line.

    An answer that names a relation must stand in that relation's line.
    """
    said, value = read_answer(trace.answer, relations)
    if relation and said and said != relation:
        return False
    wanted = relation or said
    return any(
        fact == value and wanted in (None, of)
        for facts in opened_articles(trace).values()
        for of, fact in facts.items()
    )
