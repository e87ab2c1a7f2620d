"""Before a server goes on from a checkpoint: does this machine compute what the one before it did?

A role may come back on another host, another kind of hardware, under another dtype or version of torch. Its store has
rows that the checkpoint's own weights sampled, with their log-probs: the trainer computes these anew. The sampler then
samples as many tokens after the same prompts, and the trainer says the same of them. What either differs by would be
in every ratio from now on.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import structlog

from shared.errors import UserError
from shared.policy.config import PolicyConfig
from shared.policy.policy import Policy
from shared.policy.types import SamplingParams, Trajectory

log = structlog.get_logger()

ROWS = 8
"""Enough to show another dtype or engine, which differ in every token."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Differences of log-probs, in nats: their mean and the largest."""

    mean: float
    most: float

    @classmethod
    def of(cls, differences: list[float]) -> "Gap":
        """That of one difference a token, at least one."""
        return cls(sum(differences) / len(differences), max(differences))


async def compare_log_probs(policy: Policy, run: str, config: PolicyConfig) -> None:
    """Log both gaps after a start from a checkpoint; UserError where one is above `trainer.max_gap` on average.

    Where the store has no row that the checkpoint's weights sampled, there is nothing to compare, and that is logged.
    """
    checkpoint = policy.latest()
    if checkpoint is None:
        return
    sampled = (row for row in await policy.store.unreleased(run) if 1 in row.mask)
    rows = [row for row in sampled if row.version.updates == checkpoint.updates][-ROWS:]
    if not rows:
        log.info("log-probs-not-compared", checkpoint=checkpoint.name, reason="it has sampled no row that is stored")
        return
    stored, sampler = await _of_stored(policy, rows), await _of_sampler(policy, rows, config.temperature)
    told = {"stored_mean": stored.mean, "stored_max": stored.most}
    told |= {"sampler_mean": sampler.mean, "sampler_max": sampler.most}
    log.info("log-probs-compared", checkpoint=checkpoint.name, rows=len(rows), **told)
    bound = config.trainer.max_gap
    for whose, gap in {"stored rows": stored, "the sampler": sampler}.items():
        if bound is not None and not gap.mean <= bound:
            raise UserError(
                f"after a start from {checkpoint.name} the log-probs of {whose} are {gap.mean:.3g} from the trainer's "
                f"on average, above policy.trainer.max_gap, {bound:g}: this machine or dtype computes otherwise"
            )


async def _of_stored(policy: Policy, rows: Iterable[Trajectory]) -> Gap:
    """What was recorded when the rows were sampled, and what the trainer computes now."""
    differences: list[float] = []
    for row in rows:
        turn = first_turn(row)
        computed = await policy.logprobs(row.token_ids[: turn.stop], turn.start)
        differences += [abs(a - b) for a, b in zip(row.logprobs[turn.start : turn.stop], computed, strict=True)]
    return Gap.of(differences)


async def _of_sampler(policy: Policy, rows: Iterable[Trajectory], temperature: float) -> Gap:
    """What the sampler says of tokens that it samples now, and what the trainer computes."""
    differences: list[float] = []
    for row in rows:
        turn = first_turn(row)
        prompt = row.token_ids[: turn.start]
        sampled = await policy.sampler.generate(prompt, SamplingParams(len(turn), temperature))
        computed = await policy.logprobs([*prompt, *sampled.token_ids], turn.start)
        differences += [abs(a - b) for a, b in zip(sampled.logprobs, computed, strict=True)]
    return Gap.of(differences)


def first_turn(row: Trajectory) -> range:
    """The places of the tokens of its first turn; later ones may be of newer weights than `version` says."""
    first = row.mask.index(1)
    end = row.mask.index(0, first) if 0 in row.mask[first:] else len(row.mask)
    return range(first, end)
