"""The jobs of an experiment: every arm with every seed, seed by seed, so that what is done can be compared in pairs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from shared.cli.demo.settings import Settings
from shared.cli.experiment.definition import Definition
from shared.config import load
from shared.errors import UserError

RESULT = "result.json"
SECONDS = "seconds.json"
START_S, ROLLOUT_S, TASK_S = 45.0, 0.019, 0.012
"""A guess until a job is done, from two cores: the servers' start and stop, a rollout's share, a test task's."""


@dataclass(frozen=True, slots=True)
class Job:
    """One arm with one seed. It is a demo run in `folder`, from the models that are warmed up in `start`."""

    arm: str
    seed: int
    settings: Settings
    folder: Path
    start: Path

    @property
    def name(self) -> str:
        """Of the job, its folder and its run."""
        return self.folder.name

    @property
    def state(self) -> str:
        """`done`, `begun` or `to do`. Its result is written last, and at once."""
        if (self.folder / RESULT).exists():
            return "done"
        return "begun" if self.folder.exists() else "to do"

    def guess_s(self) -> float:
        """Seconds that it may take."""
        spec = self.settings.spec()
        rollouts = spec.steps * spec.groups_per_step * spec.rollouts_per_group
        return START_S + ROLLOUT_S * rollouts + TASK_S * 4 * self.settings.demo.test_tasks


def plan(
    definition: Definition,
    folder: Path,
    *,
    arms: Sequence[str],
    seeds: Sequence[int],
    setting: str,
    smoke: bool = False,
    overrides: Sequence[str] = (),
) -> list[Job]:
    """The jobs in the order in which they run."""
    jobs = []
    for seed in seeds:
        for arm in arms:
            settings = definition.job_settings(arm, setting, seed, smoke=smoke, overrides=list(overrides))
            start = folder.resolve() / "starts" / f"{settings.team}-{seed}"
            jobs.append(Job(arm, seed, settings, folder / "jobs" / f"{arm}-{seed}", start))
    return jobs


def check_settings(jobs: Sequence[Job]) -> None:
    """UserError where a job in the folder was begun with other settings: its figures could not be compared."""
    for job in jobs:
        path = job.folder / "config.toml"
        if path.exists() and _without_models(load(Settings, path)) != job.settings:
            raise UserError(f"{job.folder} holds a job of other settings: choose another --folder, or remove it")


def check_start(job: Job) -> None:
    """UserError where the models that the job would start from were warmed up with other settings."""
    path = job.start / "config.toml"
    if path.exists() and _of_start(load(Settings, path)) != _of_start(job.settings):
        raise UserError(f"{job.start} holds models of other settings: choose another --folder, or remove it")


def _of_start(settings: Settings) -> tuple[object, ...]:
    return settings.warmup, settings.demo.environment, settings.demo.environment_options


def _without_models(settings: Settings) -> Settings:
    return settings.model_copy(update={"warmup": settings.warmup.model_copy(update={"models": {}})})


def remaining_s(jobs: Sequence[Job]) -> float:
    """An estimate of the seconds that the jobs which are not done will take: as long as those done took, if any is."""
    done = [sum_seconds(job) for job in jobs if job.state == "done"]
    left = [job for job in jobs if job.state != "done"]
    return fmean(done) * len(left) if done else sum(job.guess_s() for job in left)


def sum_seconds(job: Job) -> float:
    """How long a job has taken, over all starts of it."""
    path = job.folder / SECONDS
    return float(json.loads(path.read_text()).get("job", 0.0)) if path.exists() else 0.0
