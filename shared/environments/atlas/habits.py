"""How demonstrations behave, as far as an option of the environment says it; the rates are in demonstrations.py."""

from dataclasses import dataclass

from shared.environments.atlas.tasks import HOPS, MOST_HOPS
from shared.errors import UserError


@dataclass(frozen=True, slots=True)
class Habits:
    """`executor_errors`: how much is left of the bad choices of whoever uses the tools, 1 all of them, 0 none.

    `recovery`: the share of demonstrations that contain a fault, and how to go on from it.
    """

    hops: int = HOPS
    executor_errors: float = 1.0
    recovery: float = 0.0

    def __post_init__(self) -> None:
        if not (isinstance(self.hops, int) and 1 <= self.hops <= MOST_HOPS):
            raise UserError(f"environment atlas: hops is {self.hops!r}; it is 1 to {MOST_HOPS}")
        for name in ("executor_errors", "recovery"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise UserError(f"environment atlas: {name} is {value!r}; it is a share, 0 to 1")

    @property
    def most_calls(self) -> int:
        """Delegations that a rollout may have: one more than the longest question needs."""
        return self.hops + 1
