"""Look-up exercises: rows without facts that teach to copy the name beside a key, before and beside demonstrations.

An executor's row is an article of random names under four keys, then several answers; a planner's is a chain of calls,
each about the last result. Every name of the world may stand there, those of test entities too: the names, never their
facts. While `skewed`, few keys are frequent: the look-up is then found in seconds; with uniform keys from the start it
often stays at guessing among the keys.
"""

import random
from collections.abc import Sequence

from shared.environments.atlas.tokenizer import (
    ASSISTANT,
    CALL_END,
    END,
    RESULT_END,
    TOOL,
    Vocabulary,
    call_start,
    result_start,
)
from shared.environments.atlas.world import ALL_RELATIONS
from shared.policy.warmup.conversation import Row

KEYS, LOOKUPS, CALLS = 4, 8, 3
SKEW = 1.5
"""Exponent of the Zipf law of the keys."""


class Exercises:
    """Draws exercise rows in the ids of one role's vocabulary; only the names to look up are learned."""

    def __init__(self, vocabulary: Vocabulary, names: Sequence[str] = (), opening: str = "<answer>") -> None:
        """Draw from `names`, or from every name of the vocabulary; a line that was read is told after `opening`."""
        self._opening = opening
        self._id = {word: place for place, word in enumerate(vocabulary.words)}
        self._names = self._ids(*names) or range(*vocabulary.names)

    def _ids(self, *words: str) -> list[int]:
        return [self._id[word] for word in words]

    def executor(self, rng: random.Random, skewed: bool) -> Row:
        """One article of four random lines, then eight lines read from it, each with its key given."""
        places = rng.sample(range(len(ALL_RELATIONS)), KEYS)
        weights = [(1 + place) ** (-SKEW if skewed else 0.0) for place in places]
        keys = self._ids(*(f"{ALL_RELATIONS[place]}: " for place in places))
        title, *values = rng.sample(self._names, KEYS + 1)
        ids = [*self._ids(TOOL, result_start("ok")), title]
        for key, value in zip(keys, values, strict=True):
            ids += [*self._ids(". "), key, value]
        ids += self._ids(".", RESULT_END, ASSISTANT)
        learned = [False] * len(ids)
        for line in rng.choices(range(KEYS), weights, k=LOOKUPS):
            ids += [*self._ids(self._opening), keys[line], values[line]]
            learned += [False, False, True]
        return Row(ids, learned)

    def planner(self, rng: random.Random, skewed: bool) -> Row:
        """Three calls, each about the result of the one before, then the last result as the answer."""
        del skewed  # a copy has no key to choose
        current, ids, learned = rng.choice(self._names), [], []
        for call in range(CALLS):
            following, relation = rng.choice(self._names), rng.choice(ALL_RELATIONS)
            ids += [*self._ids(call_start("delegate", "task"), f"{relation} of "), current, *self._ids(CALL_END, END)]
            learned += [False, False, call > 0, False, False]
            ids += [*self._ids(TOOL, result_start("ok"), f"{relation}: "), following]
            ids += self._ids(RESULT_END, ASSISTANT)
            learned += [False] * 6
            current = following
        return Row([*ids, *self._ids("<answer>"), current], [*learned, False, True])
