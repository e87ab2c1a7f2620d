"""The commands of deploy/compose*.yaml, to be run without containers: read from the files, so that they cannot drift.

What a container would mount is elsewhere here; each mention of it in a command, in the environment or in a
configuration becomes the place where it is. Nothing else is changed.
"""

import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from shared.schemas import Role

DEPLOY = Path(__file__).parents[2] / "deploy"
VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?:(:[-?])([^}]*))?\})")
SECRETS = "/run/secrets"

Places = Mapping[str, Path]
"""What a container would have at a path, and where it is."""


@dataclass(frozen=True)
class Command:
    """What a service runs, with which environment."""

    words: list[str]
    environment: dict[str, str]


class Compose:
    """One compose file with its variables."""

    def __init__(self, file: str, variables: Mapping[str, str]) -> None:
        self._content = yaml.safe_load(interpolated((DEPLOY / file).read_text(), variables))

    def command(self, service: str, secrets: Path, places: Places) -> Command:
        """Of one service; `secrets` is the folder that `make secrets` made."""
        found = self._content["services"][service]
        here = {**self.secrets(service, secrets), **places}
        words = [moved(word, here) for word in found["command"]]
        environment = {name: moved(str(value), here) for name, value in found.get("environment", {}).items()}
        return Command([sys.executable if word == "python" else word for word in words], environment)

    def secrets(self, service: str, folder: Path) -> dict[str, Path]:
        """Where the files are that the service finds in /run/secrets."""
        files = {name: entry["file"] for name, entry in self._content["secrets"].items()}
        named = [name for name in self._content["services"][service]["secrets"] if isinstance(name, str)]
        return {f"{SECRETS}/{name}": folder / files[name].removeprefix("./secrets/") for name in named}


def interpolated(text: str, variables: Mapping[str, str]) -> str:
    """As compose does it, for the forms that our files have."""

    def value(found: re.Match[str]) -> str:
        dollar, name, form, other = found.groups()
        if dollar:
            return "$"
        if form == ":-":
            return variables.get(name) or other
        return variables[name]

    return VARIABLE.sub(value, text)


def moved(text: str, places: Places) -> str:
    """`text` with each path of a container where it is here."""
    paths = "|".join(re.escape(path) for path in sorted(places, key=len, reverse=True))
    return re.sub(rf"(?<![\w./-])({paths})(?![\w.-])", lambda found: str(places[found[1]]), text)


def variables(file: Path) -> dict[str, str]:
    """Those of an --env-file."""
    pairs = (line.partition("=") for line in file.read_text().splitlines() if "=" in line)
    return {name: value for name, _, value in pairs}


def configuration(role: Role, places: Places, changes: Mapping[str, Any]) -> dict[str, Any]:
    """deploy/ROLE.toml with what each user has to set, which is laid over it."""

    def here(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: here(entry) for name, entry in value.items()}
        return moved(value, places) if isinstance(value, str) else value

    config = here(tomllib.loads((DEPLOY / f"{role}.toml").read_text()))
    sections = {
        name: {**config[name], **entry} for name, entry in changes.items() if isinstance(config.get(name), dict)
    }
    return {**config, **changes, **sections}
