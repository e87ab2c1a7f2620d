"""Every command that a page shows exists, and takes the options and overrides that are shown with it."""

import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from itertools import takewhile
from pathlib import Path

import pytest

from executor_server.config import ExecutorConfig
from planner_server.config import PlannerConfig
from shared.cli.demo.services import Services
from shared.cli.demo.settings import load_settings
from shared.cli.demo_llm.settings import load_settings as load_llm_settings
from shared.config import load
from tests.integration.docs.markdown import PAGES, ROOT, blocks, spans
from tests.integration.docs.test_readme import WALK

BIN = Path(sys.executable).parent
HEADS = ("make", "tandem", "python", "pip", ".ci/run")
OTHERS = ("curl",)
DEMOS = ("demo", "demo-llm")


def shown() -> dict[str, list[str]]:
    """Every command of the pages as words, by the page and the command itself."""
    found = {}
    for page in PAGES:
        of_shell = [block.text for block in blocks(page) if block.language in ("bash", "indented")]
        lines = [line for text in of_shell for line in commands(text)]
        lines += [span for span in spans(page) if span.split()[0] in HEADS and " " in span]
        for line in lines:
            if words := shlex.split(line, comments=True):
                found[f"{page.relative_to(ROOT)}: {line}"] = [words[0].removeprefix(".venv/bin/"), *words[1:]]
    return found


def commands(text: str) -> list[str]:
    """The lines of a block, continued ones joined; none of the walk-through, which a test runs as a whole."""
    return [] if text == WALK[0].text else text.replace("\\\n", " ").splitlines()


COMMANDS = shown()


@cache
def usage(*command: str) -> str:
    """What `command --help` prints."""
    result = subprocess.run(
        [BIN / command[0], *command[1:], "--help"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def check_options(words: list[str], *command: str) -> None:
    text = usage(*command)
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    unknown = [option for option in options if not re.search(rf"{option}\b", text)]
    assert unknown == [], text


def check_overrides(words: list[str], folder: Path, command: str) -> None:
    """The demo accepts them, and so do both servers what reaches them."""
    overrides = [word for word in words if "=" in word and not word.startswith("-")]
    preset = "smoke" if "--smoke" in words else "atlas"
    settings = load_llm_settings(overrides) if command == "demo-llm" else load_settings(preset, overrides)
    services = Services(folder, settings, {"planner": folder, "executor": folder})
    load(PlannerConfig, services.write_config("planner"))
    load(ExecutorConfig, services.write_config("executor"))


@pytest.mark.parametrize("shown", COMMANDS)
def test_a_command_is_known(shown: str, tmp_path: Path):
    head, *words = COMMANDS[shown]
    match head, words:
        case "make", [target, *variables]:
            text = (ROOT / "Makefile").read_text()
            assert re.search(rf"^{target}:", text, flags=re.MULTILINE)
            given = dict(variable.split("=", 1) for variable in variables)
            assert all(re.search(rf"^{name} \?=", text, flags=re.MULTILINE) for name in given)
            if target in DEMOS:
                check_options(shlex.split(given.get("ARGS", "")), "tandem", target)
                check_overrides(shlex.split(given.get("ARGS", "")), tmp_path, target)
        case "tandem", ["keys", action, *arguments]:
            check_options(arguments, "tandem", "keys", action)
        case "tandem", [command, *arguments]:
            check_options(arguments, "tandem", command)
            if command in DEMOS:
                check_overrides(arguments, tmp_path, command)
        case "python", ["-m", module, *arguments]:
            commands = list(takewhile(lambda word: not word.startswith("-"), arguments))
            implied = ["serve"] if module == "sync_service" and not commands else []
            check_options(arguments, "python", "-m", module, *commands, *implied)
        case "python", [script]:
            shown = any(block.note == script for page in PAGES for block in blocks(page, "python"))
            assert shown or (ROOT / script).is_file()
        case "pip", ["install", package]:
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
            assert package in {f"tandem-cotrain[{extra}]" for extra in extras}
        case _:
            assert head in OTHERS or (ROOT / head).is_file()


def test_commands_are_found():
    assert {words[0] for words in COMMANDS.values()} >= {"make", "tandem", "python", "pip"}
