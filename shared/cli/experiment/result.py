"""What a finished job leaves: `result.json`, written last and at once. Every figure of a report is made of these."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from shared.cli.demo.metrics import Metrics
from shared.cli.experiment.plan import RESULT, Job
from shared.errors import UserError
from shared.schemas.base import Role
from shared.schemas.invocation import EvaluationView

When = Literal["before", "after"]
Mode = Literal["sampled", "greedy"]
CURVES = {
    "planner": (
        "reward_mean",
        "groups",
        "groups_dead",
        "calls_mean",
        "reward_variance_within",
        "reward_variance_between",
        "gap_mean",
        "trained_tokens",
    ),
    "executor": (
        "reward_mean",
        "groups",
        "groups_dead",
        "reward_variance_within",
        "reward_variance_between",
        "gap_mean",
        "trained_tokens",
    ),
}
"""The statistics of each step that are kept."""


class Evaluations(BaseModel):
    """The test tasks on one pair of checkpoints, at temperature 1 and greedy."""

    model_config = ConfigDict(frozen=True)

    sampled: EvaluationView
    greedy: EvaluationView


class JobResult(BaseModel):
    """One finished job. `curves`: by role and statistic, the values by step; `tokens`: sampled while training, by role.

    `validation`: accuracy by step, 0 before training. `seconds`: by stage, `job` is the whole.
    """

    model_config = ConfigDict(frozen=True)

    arm: str
    seed: int
    team: str
    commit: str
    machine: str
    steps: int
    before: Evaluations
    after: Evaluations
    validation: dict[int, float]
    curves: dict[Role, dict[str, dict[int, float]]]
    tokens: dict[Role, int]
    seconds: dict[str, float]

    def write(self, folder: Path) -> None:
        """Whole, or not at all."""
        beside = folder / f"{RESULT}.new"
        beside.write_text(self.model_dump_json())
        beside.replace(folder / RESULT)


def read_result(job: Job) -> JobResult | None:
    """The job's result, None where it is not done; UserError for one that is spoilt."""
    path = job.folder / RESULT
    if not path.exists():
        return None
    try:
        return JobResult.model_validate_json(path.read_text())
    except ValidationError as error:
        raise UserError(f"{path} is spoilt: {str(error).splitlines()[0]}; remove it to make it anew") from None


def curves(metrics: Metrics) -> dict[Role, dict[str, dict[int, float]]]:
    """The kept statistics of both roles; a step that was skipped lacks those of training."""
    found: dict[Role, dict[str, dict[int, float]]] = {}
    for role in ("planner", "executor"):
        if steps := metrics.steps(role):
            found[role] = {
                key: {s.step: s.statistics[key] for s in steps if key in s.statistics} for key in CURVES[role]
            }
    return found
