"""Which shard runs which micro-batch: pure, and the same on every shard."""

from collections.abc import Sequence
from dataclasses import replace

from shared.policy.batches import Example, split


def share(parts: Sequence[list[Example]], rank: int, shards: int) -> list[list[Example]]:
    """The micro-batches of `rank`: the largest goes first, to the shard with the fewest padded tokens so far.

    Every shard gets the same number, as each joins in every gather and every reduction: one with fewer runs the
    shortest row again, at multiplicity 0, which adds nothing to the loss, its gradient or the statistics. A batch of
    fewer micro-batches than shards is cut anew, into smaller ones.
    """
    parts = _at_least(shards, parts)
    costs = [len(part) * max(len(example.token_ids) for example in part) for part in parts]
    loads, mine = [0] * shards, [[] for _ in range(shards)]
    for place in sorted(range(len(parts)), key=lambda place: -costs[place]):
        lightest = min(range(shards), key=lambda shard: (loads[shard], shard))
        loads[lightest] += costs[place]
        mine[lightest].append(parts[place])
    rounds = max(len(share) for share in mine)
    idle = replace(min((e for part in parts for e in part), key=lambda e: len(e.token_ids)), multiplicity=0.0)
    return mine[rank] + [[idle]] * (rounds - len(mine[rank]))


def _at_least(shards: int, parts: Sequence[list[Example]]) -> Sequence[list[Example]]:
    if len(parts) >= shards:
        return parts
    rows = [example for part in parts for example in part]
    return split(rows, -(-sum(len(example.token_ids) for example in rows) // shards))
