"""A part of the benchmark: its batch, its sides in processes of their own, and their steps in turn."""

import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.train.models import sampled_rows
from tests.benchmarks.train.rows import Row, copied, tokens, write
from tests.benchmarks.train.shape import Part
from tests.benchmarks.train.side import Side, Taken


@dataclass(frozen=True)
class Measured:
    """The distinct rows, and every side's steps."""

    rows: list[Row]
    steps: dict[str, list[Taken]]

    @property
    def counts(self) -> dict[str, int]:
        """Rows and tokens, distinct and with their copies."""
        copies = copied(self.rows)
        return {
            "distinct_rows": len(self.rows),
            "rows": len(copies),
            "distinct_tokens": tokens(self.rows),
            "tokens": tokens(copies),
            "trained_distinct_tokens": sum(sum(row.mask) for row in self.rows),
        }

    def median(self, side: str, of: str) -> float:
        """Of one field of the side's steps."""
        return statistics.median(getattr(step, of) for step in self.steps[side])

    def speedup(self, side: str, of: str = "seconds", ours: str = "ours") -> float | None:
        """The side's time by ours."""
        return self.median(side, of) / self.median(ours, of) if {side, ours} <= self.steps.keys() else None

    def memory(self, side: str, ours: str = "ours") -> float | None:
        """Our peak above the floor by the side's."""
        both = {side, ours} <= self.steps.keys()
        return self.median(ours, "bytes_above") / self.median(side, "bytes_above") if both else None

    def loss_difference(self, *sides: str) -> float | None:
        """The most that the loss of any step differs from ours."""
        our = self.steps["ours"]
        pairs = [pair for side in sides if side in self.steps for pair in zip(our, self.steps[side], strict=True)]
        return max((abs(ours.loss - theirs.loss) for ours, theirs in pairs), default=None)


def measure(part: Part, model: Path, threads: int, tell: Callable[[str], None]) -> Measured:
    """Every side takes its steps on the same batch, one at a time; the order turns with each repeat."""
    rows = sampled_rows(model, part)
    steps: dict[str, list[Taken]] = {name: [] for name in part.sides}
    with tempfile.TemporaryDirectory(prefix="tandem-bench-") as folder:
        batch = Path(folder) / "batch.json"
        write(rows, batch)
        for names in [(name,) for name in part.sides] if part.one_by_one else [part.sides]:
            _take_turns([Side(name, model, batch, threads) for name in names], part.repeats, steps, tell)
    return Measured(rows, steps)


def _take_turns(sides: list[Side], repeats: int, steps: dict[str, list[Taken]], tell: Callable[[str], None]) -> None:
    with ExitStack() as stack:
        for side in sides:
            stack.enter_context(closing(side))
        for side in sides:
            side.ready()
            tell(f"{side.name} is ready")
        for _ in range(repeats):
            for side in sides:
                taken = side.step()
                steps[side.name].append(taken)
                tell(f"{side.name}: {taken.seconds:.1f} s, {taken.cpu_seconds:.1f} s of CPU")
            sides = [*sides[1:], sides[0]]
