"""What one role's step makes of one group: its rows, and what the step's statistics count of it."""

from dataclasses import dataclass, field
from typing import Any

from executor_server.alignment import Alignment
from shared.schemas.base import Role
from shared.schemas.stream import Fate


@dataclass(frozen=True, slots=True)
class Row:
    """One trajectory. `fate` is the one that is computed; a row that was not trained on may lack what follows it."""

    id: str
    rollout: str
    fate: Fate
    reward: float | None = None
    advantage: float | None = None
    weight: float = 0.0


@dataclass(slots=True)
class Part:
    """`ages`: the staleness of each row; `given`: rows whose fate only their server can know; `dead`: has no signal."""

    role: Role
    step: int
    group: str
    rows: list[Row] = field(default_factory=list)
    ages: dict[str, int] = field(default_factory=dict)
    given: list[str] = field(default_factory=list)
    dead: bool = False
    alignment: Alignment | None = None

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "role": self.role,
            "step": self.step,
            "rows": [{name: getattr(row, name) for name in Row.__slots__} for row in self.rows],
        }
