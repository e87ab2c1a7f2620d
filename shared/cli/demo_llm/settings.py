"""What `tandem demo-llm` runs: the sections of the demo, and one of its own, `llm`."""

import tomllib
from importlib.resources import files
from pathlib import Path

from pydantic import Field

from shared.cli.demo.settings import Settings
from shared.config import Config, override, parse
from shared.errors import UserError
from shared.schemas import ROLES

PRESET = files("shared.cli.demo_llm") / "llm.toml"


class LlmSection(Config):
    """How many live steps are wanted, and how many dead ones are made up for by further steps."""

    live_steps: int = Field(2, ge=1)
    retries: int = Field(4, ge=0)


class LlmSettings(Settings):
    """The resolved configuration of one run; `run.steps` follows from the section `llm`."""

    llm: LlmSection = LlmSection()

    def needs_model(self) -> bool:
        """Whether a role has nothing to start from."""
        return any(role not in self.warmup.models and role not in self.warmup.base for role in ROLES)

    def based_on(self, model: Path) -> "LlmSettings":
        """The same with `model` warmed up for each role that has nothing to start from."""
        base = {role: model for role in ROLES if role not in self.warmup.models} | self.warmup.base
        return self.model_copy(update={"warmup": self.warmup.model_copy(update={"base": base})})


def load_settings(assignments: list[str]) -> LlmSettings:
    """The preset with dotted overrides laid over it; UserError names the key that is wrong."""
    tables = override(tomllib.loads(PRESET.read_text()), assignments)
    if "steps" in tables["run"]:
        raise UserError("run.steps is no setting of demo-llm: it is llm.live_steps and llm.retries together")
    settings = parse(LlmSettings, tables, "demo-llm")
    steps = settings.llm.live_steps + settings.llm.retries
    settings = settings.model_copy(update={"run": {**settings.run, "steps": steps}})
    settings.spec()
    return settings
