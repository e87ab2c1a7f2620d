"""Keys and values that finished rows leave to prompts that begin with the same ids: the next turns of conversations."""

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor

Ids = tuple[int, ...]


class PrefixStore:
    """Of one version of one model's weights: whoever changes them clears it. The least recently used leaves first.

    In the sorted order of all ids, the longest common prefix with some ids is that with one of their two neighbours.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._sorted: list[Ids] = []
        self._kept: OrderedDict[Ids, Tensor] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sorted)

    def match(self, ids: Ids) -> tuple[int, Ids | None]:
        """How many of the first ids, but for the last, are kept, and under which key: that one must still be fed."""
        place = bisect_left(self._sorted, ids)
        best: tuple[int, Ids | None] = (0, None)
        for key in self._sorted[max(0, place - 1) : place + 1]:
            length = min(common(key, ids), len(ids) - 1)
            best = max(best, (length, key), key=lambda found: found[0])
        return best

    def get(self, key: Ids) -> Tensor:
        """What is kept under the key; it is now the most recently used."""
        self._kept.move_to_end(key)
        return self._kept[key]

    def keep(self, ids: Ids, states: Tensor, replaces: Ids | None = None) -> None:
        """Keep the keys and values of `ids`; a key that they go on from serves nobody any more."""
        if replaces is not None and replaces in self._kept and ids[: len(replaces)] == replaces:
            self._drop(replaces)
        if ids in self._kept:
            return
        insort(self._sorted, ids)
        self._kept[ids] = states
        self.bytes += states.nbytes

    def shrink(self, limit: int) -> None:
        """Drop the least recently used until at most `limit` bytes are kept."""
        while self._kept and self.bytes > limit:
            self._drop(next(iter(self._kept)))

    def clear(self) -> None:
        """Forget everything: the weights have changed."""
        self._sorted.clear()
        self._kept.clear()
        self.bytes = 0

    def _drop(self, ids: Ids) -> None:
        self.bytes -= self._kept.pop(ids).nbytes
        del self._sorted[bisect_left(self._sorted, ids)]


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the longest common prefix."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))
