"""Which demonstrations a warm-up goes over: endless fresh ones, or a few again and again."""

import random
from collections.abc import Callable
from dataclasses import replace

from shared.policy.warmup.conversation import Conversation
from shared.policy.warmup.curriculum import Curriculum

Draw = Callable[[random.Random], Conversation]


def limited(curriculum: Curriculum, count: int, seed: int) -> Curriculum:
    """Nothing is learned but `count` demonstrations: no exercises, which are written in the environment's own words."""
    rng = random.Random(f"demonstrations/{seed}")
    few = [curriculum.demonstration(rng) for _ in range(count)]
    return replace(curriculum, demonstration=in_passes(few), exercise=None, lookup=None)


def in_passes(conversations: list[Conversation]) -> Draw:
    """Each call gives the next one; every pass over them all has an order of its own, drawn when it begins."""
    left: list[Conversation] = []

    def draw(rng: random.Random) -> Conversation:
        if not left:
            left.extend(rng.sample(conversations, len(conversations)))
        return left.pop()

    return draw
