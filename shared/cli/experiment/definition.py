"""What an experiment is: arms, settings and comparisons, in one TOML file; and the demo's settings of each job."""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from shared.cli.demo.settings import Settings, merge, read_preset
from shared.config import Config, override, parse, read_toml
from shared.errors import UserError
from shared.ids import Name

ARMS = files("shared.cli.experiment") / "arms.toml"
UNTRAINED = "untrained"
"""No arm that runs: the evaluation at step 0 of the jobs that start from the warmed-up pair."""
OURS = ("run.seed", "warmup.seed")
Tables = dict[str, Any]


class Arm(Config):
    """The sections of the demo's settings that make the arm, sparse; `about` says it in words."""

    about: str
    demo: Tables = Field(default_factory=dict)
    warmup: Tables = Field(default_factory=dict)
    run: Tables = Field(default_factory=dict)
    planner: Tables = Field(default_factory=dict)
    executor: Tables = Field(default_factory=dict)

    def tables(self) -> Tables:
        """What is laid over the demo's settings."""
        return self.model_dump(exclude={"about"})


class Comparison(Config):
    """The paired difference of two arms: `of` less `less`."""

    of: Name
    less: Name

    def __str__(self) -> str:
        return f"{self.of} - {self.less}"


class Definition(Config):
    """Arms by name, in the order in which they run and are shown."""

    every: Tables = Field(default_factory=dict)
    arms: dict[Name, Arm]
    settings: dict[Name, Tables]
    comparisons: tuple[Comparison, ...] = ()

    @model_validator(mode="after")
    def _arms_exist(self) -> "Definition":
        known = {*self.arms, UNTRAINED}
        unknown = {name for c in self.comparisons for name in (c.of, c.less)} - known
        if unknown or UNTRAINED in self.arms:
            raise ValueError(f"{', '.join(sorted(unknown)) or UNTRAINED}: no such arm can be compared or run")
        return self

    def job_settings(self, arm: str, setting: str, seed: int, *, smoke: bool, overrides: list[str]) -> Settings:
        """The demo's settings of one job; UserError names the arm and the key that is wrong."""
        for name in (one.partition("=")[0] for one in overrides):
            if name in OURS or name.startswith("warmup.models"):
                raise UserError(f"{name} is no setting of an experiment, which sets it itself")
        layers = [self.every, self.settings[setting], self.arms[arm].tables()]
        tables = read_preset("atlas")
        for layer in [*layers, read_preset("smoke")] if smoke else layers:
            tables = merge(tables, layer)
        tables = merge(override(tables, overrides), {"run": {"seed": seed}, "warmup": {"seed": seed}})
        settings = parse(Settings, tables, f"arm {arm}")
        settings.spec()
        return settings

    def chosen(self, names: list[str] | None) -> list[str]:
        """These arms, or all, in the file's order; UserError for one that there is not."""
        return _known("arm", names or list(self.arms), list(self.arms))

    def check_setting(self, name: str) -> None:
        """UserError where there is no such setting."""
        _known("setting", [name], list(self.settings))


def load_definition(path: Path | None = None) -> Definition:
    """The file's, or Tandem's own."""
    tables = tomllib.loads(ARMS.read_text()) if path is None else read_toml(path)
    return parse(Definition, tables, str(path or "arms.toml"))


def _known(what: str, names: list[str], known: list[str]) -> list[str]:
    for name in names:
        if name not in known:
            raise UserError(f"there is no {what} {name!r}; there are {', '.join(known)}")
    return [name for name in known if name in names]
