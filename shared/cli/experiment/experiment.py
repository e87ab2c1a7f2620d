"""What was asked for, resolved: the jobs to run, and those in the folder that a report is made of."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from shared.cli.experiment.definition import UNTRAINED, Definition, load_definition
from shared.cli.experiment.plan import RESULT, Job, check_settings, plan
from shared.cli.experiment.result import JobResult, read_result


@dataclass(frozen=True, slots=True)
class Experiment:
    """The arms, seeds and overrides that were asked for, in their folder; `command` is what a person typed."""

    definition: Definition
    folder: Path
    arms: list[str]
    seeds: list[int]
    setting: str
    smoke: bool
    overrides: list[str]
    command: str

    @classmethod
    def chosen(
        cls,
        *,
        folder: Path,
        config: Path | None,
        arms: list[str] | None,
        seeds: list[int],
        setting: str,
        smoke: bool,
        overrides: list[str],
        command: str,
    ) -> "Experiment":
        """UserError names what there is not, and a job in the folder that was begun with other settings."""
        definition = load_definition(config)
        definition.check_setting(setting)
        made = cls(definition, folder, definition.chosen(arms), seeds, setting, smoke, overrides, command)
        check_settings([*made.jobs, *made.in_folder()])
        return made

    @property
    def jobs(self) -> list[Job]:
        """Those that were asked for, in the order in which they run."""
        return self._plan(self.arms, self.seeds)

    def in_folder(self) -> list[Job]:
        """The folder's done jobs of the definition's arms, by arm and seed: other starts may have run more."""
        names = [path.parent.name.rpartition("-") for path in self.folder.glob(f"jobs/*/{RESULT}")]
        done = sorted((arm, int(seed)) for arm, _, seed in names if arm in self.definition.arms)
        return [
            job
            for name in self.definition.arms
            for arm, seed in done
            if arm == name
            for job in self._plan([arm], [seed])
        ]

    def results(self) -> list[JobResult]:
        """What the done jobs of the folder left."""
        return [result for job in self.in_folder() if (result := read_result(job)) is not None]

    def about(self, names: Iterable[str]) -> dict[str, str]:
        """Each arm in words, those of step 0 too."""
        arms = self.definition.arms
        return {name: arms[name].about if name in arms else _untrained(name) for name in names}

    def _plan(self, arms: list[str], seeds: list[int]) -> list[Job]:
        return plan(
            self.definition,
            self.folder,
            arms=arms,
            seeds=seeds,
            setting=self.setting,
            smoke=self.smoke,
            overrides=self.overrides,
        )


def _untrained(name: str) -> str:
    team = name.removeprefix(UNTRAINED).lstrip("-")
    return f"the warmed-up model of {team} before training" if team else "the warmed-up pair before training"
