"""What finished rows leave behind, against a plain search over all of it."""

import random

import torch

from shared.policy.prefixes import PrefixStore, common


def states(tokens: int) -> torch.Tensor:
    return torch.zeros(2, 1, tokens, 4)


def test_the_longest_common_prefix_is_found_among_all():
    rng = random.Random(0)
    store, kept = PrefixStore(), set()
    for _ in range(400):
        ids = tuple(rng.randrange(2) for _ in range(rng.randrange(1, 12)))
        if rng.random() < 0.3:
            store.keep(ids, states(len(ids)))
            kept.add(ids)
        length, key = store.match(ids)
        assert length == max((min(common(one, ids), len(ids) - 1) for one in kept), default=0)
        assert key is None or common(key, ids) >= length


def test_a_conversation_is_kept_once():
    store = PrefixStore()
    store.keep((1, 2, 3), states(3))
    store.keep((1, 2, 3, 4), states(4), replaces=(1, 2, 3))
    store.keep((1, 2, 9), states(3), replaces=(1, 2, 3, 4))  # it began alike, and went on otherwise
    store.keep((1, 2, 9), states(3))
    assert len(store) == 2
    assert store.bytes == states(4).nbytes + states(3).nbytes


def test_the_least_recently_used_leaves_first():
    store = PrefixStore()
    for first in range(4):
        store.keep((first, 1, 2), states(3))
    store.get((0, 1, 2))
    store.shrink(2 * states(3).nbytes)
    assert [store.match((first, 1, 2, 3))[0] for first in range(4)] == [3, 0, 0, 3]
    store.clear()
    assert (len(store), store.bytes) == (0, 0)
