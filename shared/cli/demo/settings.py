"""What a demo run is: one TOML of five sections, `demo`, `warmup`, `run`, `planner`, `executor`, and dotted overrides.

The sections `planner` and `executor` are the servers' own: they validate them, and refuse what they do not know.
"""

import json
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from shared.config import Config, override, parse
from shared.errors import UserError
from shared.ids import Name
from shared.schemas import ROLES, Role
from shared.schemas.run import RunSpec

PRESETS = files("shared.cli.demo")


class DemoSection(Config):
    """What the conductor does around the run. Port 0 takes a free one."""

    environment: str = "atlas"
    environment_options: dict[str, Any] = Field(default_factory=dict)
    host: str = "127.0.0.1"
    sync_port: int = 0
    planner_port: int = 0
    executor_port: int = 0
    test_tasks: int = Field(400, ge=2)
    validation_tasks: int = Field(100, ge=2)
    validation_every: int = Field(20, ge=1)
    learning_verdict: bool = True
    database_url: str | None = None
    redis_url: str | None = None


class WarmupSection(Config):
    """Stage 1. With `steps` set: that many, and no gate. With `models` set: start from these folders instead.

    `base`: what is warmed up, in place of the environment's own model; with it `demonstrations` are few (unset: fresh
    ones without end), and `pace` has fields of `shared.policy.warmup.pace.Pace`, in place of the environment's.
    """

    seed: int = 11
    steps: int | None = None
    joint_low: float = 0.20
    joint_high: float = 0.55
    planner_format: float = 0.95
    executor_format: float = 0.80
    joint_tasks: int = 200
    models: dict[Role, Path] = Field(default_factory=dict)
    base: dict[Role, Path] = Field(default_factory=dict)
    demonstrations: int | None = Field(None, ge=1)
    pace: dict[str, Any] = Field(default_factory=dict)
    device: str = "cpu"


class Settings(Config):
    """The resolved configuration of one run; saved as `config.toml` in its folder."""

    demo: DemoSection = DemoSection()
    warmup: WarmupSection = WarmupSection()
    run: dict[str, Any]
    planner: dict[str, Any] = Field(default_factory=dict)
    executor: dict[str, Any] = Field(default_factory=dict)

    @property
    def team(self) -> str:
        """The planner server's: `pair`, or one that has no executor server."""
        return self.planner.get("team", "pair")

    @property
    def roles(self) -> tuple[Role, ...]:
        """Those that have a server, in their fixed order."""
        return ROLES if self.team == "pair" else ("planner",)

    def section(self, role: Role) -> dict[str, Any]:
        """The server's own section."""
        return self.planner if role == "planner" else self.executor

    def spec(self, d_max: int | None = None) -> RunSpec:
        """The run as it is declared; `d_max` replaces "auto"."""
        tables = dict(self.run)
        if tables.get("d_max") == "auto":
            tables["d_max"] = d_max or 1
        try:
            return RunSpec.model_validate_json(json.dumps(tables))
        except ValidationError as error:
            faults = "; ".join(f"run.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise UserError(faults) from None


def load_settings(preset: Literal["atlas", "smoke"], assignments: list[str]) -> Settings:
    """The atlas preset, with the smoke preset's few keys laid over it where asked, then the overrides."""
    tables = read_preset("atlas")
    if preset == "smoke":
        tables = merge(tables, read_preset("smoke"))
    settings = parse(Settings, override(tables, assignments), "demo")
    settings.spec()
    return settings


def run_name(folder: Path) -> Name:
    """A run is named after its folder."""
    return folder.resolve().name


def trained(settings: Settings) -> tuple[Role, ...]:
    """The roles that train, in their fixed order."""
    return tuple(role for role in ROLES if role in settings.spec().trained_roles)


def read_preset(name: str) -> dict[str, Any]:
    """The tables of one of the demo's own files."""
    return tomllib.loads((PRESETS / f"{name}.toml").read_text())


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`base` with the keys of `over` laid over it, section by section."""
    both = {
        k: merge(base[k], v) if isinstance(v, dict) and isinstance(base.get(k), dict) else v for k, v in over.items()
    }
    return {**base, **both}
