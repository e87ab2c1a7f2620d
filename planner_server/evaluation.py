"""What one evaluation came to, task by task."""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from planner_server.rollout import Rollout
from shared.environments.base import Task
from shared.schemas.invocation import EvaluationRequest, EvaluationView


@dataclass(frozen=True, slots=True)
class Outcome:
    """One task's rollout, in figures. `kind` is what the task's metadata say, for accuracy by kind."""

    correct: float
    planner_format: int
    executor_formats: tuple[int, ...]
    kind: str | None

    @classmethod
    def of(cls, task: Task, rollout: Rollout) -> "Outcome":
        """The figures of `rollout`."""
        kind = task.metadata.get("kind")
        formats = tuple(answer.r_format for _, answer in rollout.invocations)
        return cls(rollout.r_correct, rollout.episode.r_format, formats, None if kind is None else str(kind))


@dataclass(slots=True)
class Evaluation:
    """One evaluation, from its start to its end. `outcomes` are by the task's place."""

    id: str
    request: EvaluationRequest
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    reason: str | None = None
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None

    def end(self, reason: str | None = None) -> None:
        """It is done, or with a reason failed."""
        self.reason, self.ended = reason, time.monotonic()

    def view(self) -> EvaluationView:
        """Progress, then the result."""
        seconds = (self.ended or time.monotonic()) - self.started
        state = "running" if self.ended is None else "done" if self.reason is None else "failed"
        figures = _figures([self.outcomes[place] for place in sorted(self.outcomes)]) if state == "done" else {}
        return EvaluationView(
            id=self.id,
            request=self.request,
            state=state,
            done=len(self.outcomes),
            reason=self.reason,
            seconds=seconds,
            **figures,
        )


def _figures(outcomes: list[Outcome]) -> dict[str, Any]:
    formats = [r_format for outcome in outcomes for r_format in outcome.executor_formats]
    kinds: defaultdict[str, list[float]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.kind is not None:
            kinds[outcome.kind].append(outcome.correct)
    return {
        "correct": tuple(outcome.correct for outcome in outcomes),
        "planner_format": tuple(outcome.planner_format for outcome in outcomes),
        "calls": tuple(len(outcome.executor_formats) for outcome in outcomes),
        "executor_format_rate": fmean(formats) if formats else None,
        "accuracy": fmean(outcome.correct for outcome in outcomes),
        "by_kind": {kind: fmean(values) for kind, values in sorted(kinds.items())},
    }
