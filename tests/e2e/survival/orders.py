"""Whom to kill, when: a random but repeatable list, which has every moment and every victim in it."""

import random
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Literal, get_args

STEPS = 20
DEAD_STEP = 7
"""Its groups are all dead: no row is trained on."""
Moment = Literal[
    "before-update",
    "before-optimizer-step",
    "after-update",
    "in-checkpoint",
    "before-ack",
    "after-ack",
    "before-publish",
]
MOMENTS = get_args(Moment)
Victim = Literal["trainer", "server", "sync service"]
EVERY = 3
"""Steps from one checkpoint to the next."""


@dataclass(frozen=True)
class Order:
    """Kill `victim` when the trainer is at `moment` of `step`."""

    number: int
    step: int
    moment: Moment
    victim: Victim


def orders(seed: int, victims: dict[Victim, int]) -> list[Order]:
    """So many kills of each victim, each in a later step than the one before; all moments in turn, shuffled."""
    draws = random.Random(seed)
    listed = [victim for victim, count in victims.items() for _ in range(count)]
    draws.shuffle(listed)
    steps = sorted(draws.sample(range(1, STEPS + 1), len(listed)))
    waiting = list(islice(cycle(draws.sample(MOMENTS, len(MOMENTS))), len(listed)))
    made: list[Order] = []
    for number, (step, victim) in enumerate(zip(steps, listed, strict=True)):
        possible = moments(step)
        if made and (made[-1].step, made[-1].moment) == (step - 1, "before-publish"):
            possible.discard("before-update")  # it has passed: a version is published beside the next step's gradient
        moment = next((moment for moment in waiting if moment in possible), "before-ack")
        if moment in waiting:
            waiting.remove(moment)
        made.append(Order(number, step, moment, victim))
    return made


def moments(step: int) -> set[Moment]:
    """Those that a step has: one without a live row takes no optimiser step and publishes nothing."""
    missing: set[Moment] = {"before-optimizer-step", "before-publish"} if step == DEAD_STEP else set()
    if step % EVERY and step != STEPS:
        missing.add("in-checkpoint")
    return set(MOMENTS) - missing
