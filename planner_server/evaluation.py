"""What one evaluation came to, task by task."""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from planner_server.rollout import Rollout
from planner_server.transcript import transcript
from shared.environments.base import Task
from shared.schemas.invocation import EvaluationRequest, EvaluationView, TaskTranscript


@dataclass(frozen=True, slots=True)
class Outcome:
    """One task's rollout, in figures. `kind` is what the task's metadata say, for accuracy by kind."""

    correct: float
    planner_format: int
    calls: int
    executor_formats: tuple[int, ...]
    kind: str | None
    transcript: TaskTranscript | None

    @classmethod
    def of(cls, task: Task, rollout: Rollout, *, text: bool = False) -> "Outcome":
        """The figures of `rollout`; with `text`, what was written in it too."""
        kind = task.metadata.get("kind")
        return cls(
            correct=rollout.r_correct,
            planner_format=rollout.episode.r_format,
            calls=rollout.calls,
            executor_formats=tuple(delegation.answer.r_format for delegation in rollout.delegations),
            kind=None if kind is None else str(kind),
            transcript=transcript(task, rollout) if text else None,
        )


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
    kinds: defaultdict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.kind is not None:
            kinds[outcome.kind].append(outcome)
    return {
        "correct": tuple(outcome.correct for outcome in outcomes),
        "planner_format": tuple(outcome.planner_format for outcome in outcomes),
        "calls": tuple(outcome.calls for outcome in outcomes),
        "executor_format_rate": fmean(formats) if formats else None,
        "accuracy": fmean(outcome.correct for outcome in outcomes),
        "by_kind": {kind: fmean(o.correct for o in of_kind) for kind, of_kind in sorted(kinds.items())},
        "calls_by_kind": {kind: fmean(o.calls for o in of_kind) for kind, of_kind in sorted(kinds.items())},
        "transcripts": tuple(outcome.transcript for outcome in outcomes if outcome.transcript is not None),
    }
