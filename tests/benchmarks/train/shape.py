"""How large the batches are that a run of the benchmark trains on: full, quick, and the smallest for a test."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

D_MAX = 8
ROLLOUTS_PER_GROUP = 8
CALLS = ((0, 1, 1, 2, 2, 2, 4, 12), (0, 1, 1, 2, 2, 2, 4, 12), (1, 1, 1, 2, 2, 3, 6, 8), (0, 1, 2, 2, 2, 3, 6, 8))
"""Calls of a group's rollouts, group after group: 3 in the mean, some 0, some over `D_MAX`."""
EVERY_SIDE = ("ours", "ours-checkpointed", "copies", "handwritten", "trl", "trl-unchecked")


@dataclass(frozen=True)
class Part:
    """One batch on one model, and the sides that take a step on it, `repeats` times in turn.

    `groups` are the numbers of its groups; the rows' lengths are log-normal, in tokens, within the bounds.
    `one_by_one`: a side ends before the next one starts, where they do not fit in memory together.
    """

    groups: tuple[int, ...]
    median_length: int
    shortest: int
    longest: int
    sides: tuple[str, ...]
    repeats: int
    one_by_one: bool = False


@dataclass(frozen=True)
class Shape:
    """`small`: on the model of 1M parameters; `smollm2`: on SmolLM2-135M-Instruct."""

    name: str
    small: Part | None
    smollm2: Part | None

    def repeated(self, times: int | None) -> "Shape":
        """The same with that many steps of each side."""
        return self if times is None else self._with(lambda part: replace(part, repeats=times))

    def among(self, sides: Sequence[str] | None) -> "Shape":
        """The same with no sides but `ours` and those."""
        if sides is None:
            return self
        wanted = {"ours", *sides}
        return self._with(lambda part: replace(part, sides=tuple(side for side in part.sides if side in wanted)))

    def _with(self, change: Callable[[Part], Part]) -> "Shape":
        parts = {name: change(part) for name in ("small", "smollm2") if (part := getattr(self, name))}
        return replace(self, **parts)


SMALL = Part(tuple(range(8)), 290, 64, 1024, ("ours", "copies", "handwritten", "trl", "trl-unchecked"), 3)
SMOLLM2 = Part((2,), 290, 64, 1024, EVERY_SIDE[:5], 1, one_by_one=True)
SHAPES = {
    "full": Shape("full", SMALL, SMOLLM2),
    "small": Shape("small", SMALL, None),
    "smollm2": Shape("smollm2", None, SMOLLM2),
    "quick": Shape("quick", Part((0, 1), 145, 32, 512, ("ours", "copies", "handwritten", "trl"), 1), None),
    "smallest": Shape("smallest", Part((0,), 24, 16, 32, ("ours", "copies", "handwritten"), 1), None),
}
