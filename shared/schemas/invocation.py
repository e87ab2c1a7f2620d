"""The planner's direct calls to the executor, and evaluations. Text crosses here; it never reaches the sync service."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from shared.ids import Id, Name
from shared.schemas.base import Step, Text, Unit, Wire

Checkpoint = Annotated[str, StringConstraints(pattern=r"^(initial|latest|best|live|step-[0-9]{1,10})$")]
"""`initial`: the folder that the run started from; `latest`: the last one saved; `best`: kept by validation;
`live`: what the sampler holds now; `step-20`: the one saved after step 20."""
COLDEST = 0.01
"""Logits divided by less may overflow; vLLM samples no colder either."""
Split = Literal["train", "validation", "test"]
Prose = Annotated[str, StringConstraints(max_length=100_000)]
Subtask = Annotated[str, StringConstraints(max_length=100_000, pattern=r"^[^\x00]*$")]


def _not_too_cold(temperature: float) -> float:
    if 0 < temperature < COLDEST:
        raise ValueError(f"a temperature is 0, which is greedy, or at least {COLDEST}")
    return temperature


EXCERPT = 2000
"""Characters of one text of a transcript that are kept."""
Temperature = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False), AfterValidator(_not_too_cold)]


class EvaluationPolicy(Wire):
    """Which weights an evaluation runs on, and how it samples; temperature 0 is greedy."""

    checkpoint: Checkpoint
    temperature: Temperature = 1.0


class InvocationRequest(Wire):
    """One delegation of one rollout. Under `evaluation` it is not scored, stored for training or sent to sync."""

    run: Name
    rollout: Id
    index: Step
    subtask: Subtask
    task_id: Text
    split: Split = "train"
    evaluation: EvaluationPolicy | None = None


class InvocationAnswer(Wire):
    """What the executor came to. `error`: its own format was invalid; `limit`: it ran into one of its limits."""

    status: Literal["ok", "error", "limit"]
    answer: Prose
    r_format: Annotated[int, Field(ge=0, le=1)]
    turns: Step = 0


class EvaluationRequest(Wire):
    """Run `n` tasks of `split` (the first n of the order that `seed` gives), one rollout each.

    The first `transcripts` of them come back as text, too.
    """

    split: Split
    n: Annotated[int, Field(strict=True, ge=1, le=100_000)]
    seed: Step = 0
    temperature: Temperature = 1.0
    planner_checkpoint: Checkpoint = "live"
    executor_checkpoint: Checkpoint = "live"
    transcripts: Annotated[int, Field(strict=True, ge=0, le=100)] = 0


class CallTranscript(Wire):
    """One call of a rollout: what was asked for (arguments as JSON), what came back. Texts are cut to an excerpt."""

    name: str
    arguments: str
    state: str
    result: str


class TaskTranscript(Wire):
    """One task's rollout as text, for people: the texts are a model's, and hostile."""

    query: str
    key: str
    calls: tuple[CallTranscript, ...]
    answer: str | None
    correct: Unit


class EvaluationView(Wire):
    """Progress, then the result: per task, in order."""

    id: Id
    request: EvaluationRequest
    state: Literal["running", "done", "failed"]
    done: Step
    reason: str | None = None
    correct: tuple[Unit, ...] = ()
    planner_format: tuple[int, ...] = ()
    calls: tuple[int, ...] = ()
    executor_format_rate: float | None = None
    accuracy: float | None = None
    by_kind: dict[str, float] = {}
    calls_by_kind: dict[str, float] = {}
    transcripts: tuple[TaskTranscript, ...] = ()
    seconds: float = 0.0


class CheckpointView(Wire):
    """One saved checkpoint of a server."""

    name: str
    step: Step
    updates: Step
    kept: bool
    path: str


PARTS = "parts"
"""The fact that names the trajectories below one: what its own policy did for it, in the same store."""


class TrajectoryView(Wire):
    """The readable text of one trajectory, for people only."""

    id: Id
    run: Name
    role: Literal["planner", "executor"]
    tokens: Step
    messages: tuple[dict, ...]
    facts: dict
