"""`metrics.jsonl`: one line a step and role, one a validation; what the table and the plot are made of."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import TypeVar

from shared.errors import UserError
from shared.schemas import Role
from shared.schemas.stream import StepStatistics

T = TypeVar("T")


def whole_lines(path: Path) -> list[str]:
    """The lines of a file that is appended to; a last one that a kill cut short is removed, to be written again."""
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    return whole.splitlines()


def read_entries(path: Path, read: Callable[[str], T]) -> list[T]:
    """What `read` makes of each whole line; UserError names a file that is spoilt."""
    try:
        return [read(line) for line in whole_lines(path)]
    except ValueError as error:
        raise UserError(f"{path} is spoilt: {str(error).splitlines()[0]}") from None


class Metrics:
    """The steps and validations of one run, kept in memory and appended to a file; reopening reads them back."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._steps: dict[tuple[Role, int], StepStatistics] = {}
        self.validations: dict[int, float] = {}
        for entry in read_entries(path, json.loads):
            if entry["kind"] == "step":
                step = StepStatistics.model_validate_json(json.dumps(entry["step"]))
                self._steps[step.role, step.step] = step
            else:
                self.validations[entry["step"]] = entry["accuracy"]

    def add_step(self, step: StepStatistics) -> bool:
        """False where this very ack is known. A step trained again after a resume replaces the former one."""
        known = self._steps.get((step.role, step.step))
        if known is not None and known.epoch == step.epoch:
            return False
        self._steps[step.role, step.step] = step
        self._append({"kind": "step", "step": step.model_dump(mode="json")})
        return True

    def add_validation(self, step: int, correct: Sequence[float]) -> None:
        """How both roles' checkpoints of `step` did on the validation tasks; 0 is before training. Once a step."""
        if step not in self.validations:
            self.validations[step] = fmean(correct)
            entry = {"kind": "validation", "step": step, "accuracy": fmean(correct), "tasks": len(correct)}
            self._append(entry)

    def steps(self, role: Role) -> list[StepStatistics]:
        """A role's steps in order."""
        return [self._steps[key] for key in sorted(self._steps) if key[0] == role]

    def last(self, role: Role) -> int:
        """The highest step acked so far."""
        return max((step for r, step in self._steps if r == role), default=0)

    def _append(self, entry: dict) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(entry) + "\n")
