"""What a warmed-up model must hold before reinforcement learning, measured on validation tasks.

Of each seat: the look-up; the share of episodes with a valid format; and, with a fault in each, how many recover.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from transformers import PreTrainedModel

from shared.policy.logprobs import trained_logprobs
from shared.policy.warmup.conversation import Row
from shared.policy.warmup.episodes import Ended, faulty_runs, runs
from shared.policy.warmup.lockstep import LockstepSampler
from shared.policy.warmup.loop import collate, count_sure
from shared.policy.warmup.seat import Seat

EPISODES = 200
LOOKUP_ROWS = 128
Figures = dict[str, float]


def measure(model: PreTrainedModel, seats: Sequence[Seat], seed: int) -> tuple[Figures, dict[str, Figures]]:
    """The figures of all seats, and how many recovered from each kind of fault; of two seats each is named by its role.

    A figure for which a curriculum has no means is left out. Only those with a threshold are gates.
    """
    figures: Figures = {}
    recovery: dict[str, Figures] = {}
    for seat in seats:
        before = f"{seat.role}_" if len(seats) > 1 else ""
        of_seat, by_fault = _measure(model, seat, seed)
        figures |= {before + name: value for name, value in of_seat.items()}
        recovery |= {before + kind: value for kind, value in by_fault.items()}
    return figures, recovery


def thresholds(seats: Sequence[Seat]) -> Figures:
    """The least value of each figure that passes, named as in `measure`."""
    return {
        f"{seat.role}_{name}" if len(seats) > 1 else name: least
        for seat in seats
        for name, least in seat.curriculum.thresholds.items()
    }


def shortfalls(figures: Mapping[str, float], least: Mapping[str, float]) -> list[str]:
    """What of the thresholds `least` does not hold, in words."""
    return [
        f"{name} {figures[name]:.3f}, at least {value:g} is needed"
        for name, value in least.items()
        if figures[name] < value
    ]


@torch.inference_mode()
def lookup(model: PreTrainedModel, rows: list[Row]) -> float:
    """Share of the rows' learned tokens that the model gives more than half of the probability."""
    tokens, learned = collate(rows, model.device)
    return count_sure(trained_logprobs(model, tokens, learned, temperature=1.0), learned) / int(learned.sum())


def _measure(model: PreTrainedModel, seat: Seat, seed: int) -> tuple[Figures, dict[str, Figures]]:
    figures: Figures = {}
    draw = seat.curriculum.lookup
    if draw is not None:
        rng = random.Random(f"lookup/{seed}")
        figures["lookup"] = lookup(model, [draw(rng) for _ in range(LOOKUP_ROWS)])
    episodes = runs(seat, seed, EPISODES)
    if episodes:
        ended = asyncio.run(LockstepSampler(model, seed).run(episodes))
        figures |= _shares(ended) | {"turns": sum(one.episode.turns for one in ended) / len(ended)}
    faulty = faulty_runs(seat, seed, EPISODES)
    met = [one for one in asyncio.run(LockstepSampler(model, seed).run(faulty)) if one.fault] if faulty else []
    if not met:
        return figures, {}
    figures |= {f"recovery_{name}": value for name, value in _shares(met).items()}
    return figures, _by_fault(met)


def _shares(ended: Sequence[Ended]) -> Figures:
    """The share with a valid format, and the mean correctness, where there is a judge."""
    shares = {"format": sum(one.episode.r_format for one in ended) / len(ended)}
    correct = [one.correct for one in ended if one.correct is not None]
    return shares | ({"correct": sum(correct) / len(ended)} if correct else {})


def _by_fault(met: Sequence[Ended]) -> dict[str, Figures]:
    kinds: defaultdict[str, list[Ended]] = defaultdict(list)
    for one in met:
        kinds[one.fault or ""].append(one)
    return {kind: {"episodes": len(of_kind)} | _shares(of_kind) for kind, of_kind in sorted(kinds.items())}
