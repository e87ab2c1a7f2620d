"""Which replica has the longest cached beginning of a prompt."""

from collections import OrderedDict
from collections.abc import Sequence

REMEMBERED = 16_384
"""Turns whose replica is known: a trajectory has one, as its next turn replaces it."""


class Places:
    """Where the turns so far were sampled. The prompt of a next turn begins with the ids of the turn before it."""

    def __init__(self) -> None:
        self._places: OrderedDict[int, int] = OrderedDict()

    def find(self, prompt_ids: Sequence[int]) -> int | None:
        """The place that sampled the longest turn which `prompt_ids` continue; forgotten, as the next replaces it.

        None where no turn is known: a first turn, which all rollouts of a task begin alike, is nobody's.
        """
        digest, key = 0, None
        for token in prompt_ids:
            digest = hash((digest, token))
            if digest in self._places:
                key = digest
        return None if key is None else self._places.pop(key)

    def remember(self, token_ids: Sequence[int], place: int) -> None:
        """A turn that ends `token_ids` (prompt and completion) was sampled at `place`."""
        digest = 0
        for token in token_ids:
            digest = hash((digest, token))
        self._places[digest] = place
        while len(self._places) > REMEMBERED:
            self._places.popitem(last=False)
