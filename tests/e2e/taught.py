"""The trivial environment with demonstrations, for models that another environment did not make."""

import random

from shared.policy.warmup.conversation import Conversation, Turn
from shared.policy.warmup.curriculum import Curriculum
from shared.schemas import Role
from tests.parity_environment import NUMBERS, Parity, answer


class Taught(Parity):
    """A demonstration answers at once, with any number."""

    name = "taught"

    def curriculum(self, role: Role) -> Curriculum:
        return Curriculum(demonstration=_demonstration)


def _demonstration(rng: random.Random) -> Conversation:
    return Conversation("2", (Turn(answer(rng.choice(NUMBERS))),))
