"""Every command that a page shows exists, and takes the options and overrides that are shown with it."""

import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from ray.scripts.scripts import cli as ray
from typer.main import get_command

from executor_server.config import ExecutorConfig
from planner_server.config import PlannerConfig
from shared.cli.demo.services import Services
from shared.cli.demo.settings import load_settings
from shared.cli.demo_llm.settings import load_settings as load_llm_settings
from shared.cli.main import build
from shared.config import load
from tests.integration.docs.markdown import PAGES, ROOT, blocks
from tests.integration.docs.shell import SHELL, Mark, commands, mark, shell_blocks

BIN = Path(sys.executable).parent
OTHERS = ("curl", "docker", "python3", "scp", "ssh")
"""Not ours. Each line of docker is looked at by tests/integration/deploy/test_page.py."""
VLLM = "/opt/vllm/bin/"
"""vLLM's own environment; `make test-vllm` runs a server in one."""
DEMOS = ("demo", "demo-llm")
COMMANDS = commands()
TANDEM = get_command(build())
SETTABLE = "".join(file.read_text() for file in [*ROOT.glob("deploy/*.yaml"), *ROOT.glob("shared/cli/*.py")])
SETTABLE += (ROOT / "deploy" / "secrets.sh").read_text()


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
    assert [option for option in options(words) if not re.search(rf"{option}\b", text)] == [], text


def check_tandem(words: list[str], tmp_path: Path) -> None:
    """Of the command itself, without starting it: the words up to the first that is no command's name."""
    command: Any = TANDEM
    while words and words[0] in getattr(command, "commands", {}):
        command, *words = command.commands[words[0]], *words[1:]
    assert not hasattr(command, "commands") or not words or words[0].startswith("-"), words
    known = {"--help"} | {option for parameter in command.params for option in parameter.opts}
    assert {*options(words)} <= known | {option for p in command.params for option in p.secondary_opts}
    if command.name in DEMOS:
        check_overrides(words, tmp_path, command.name)


def options(words: list[str]) -> list[str]:
    return [word.partition("=")[0] for word in words if word.startswith("--")]


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
                check_tandem([target, *shlex.split(given.get("ARGS", ""))], tmp_path)
        case "tandem", _:
            check_tandem(words, tmp_path)
        case "python", ["-m", "pytest", folder, *_]:
            assert (ROOT / folder).is_dir()
        case "python", ["-m", module, *arguments] if not any(word.startswith("-") for word in arguments):
            assert find_spec(module)
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
        case "ray", [action, *arguments]:
            ray.commands[action].make_context(action, arguments)
        case "export", _:
            names = [word.partition("=")[0] for word in words if "=" in word]
            assert [name for name in names if name not in SETTABLE] == []
        case "cd", [folder]:
            assert (ROOT / folder).is_dir()
        case _:
            assert head in OTHERS or head.startswith(VLLM) or (ROOT / head).is_file()


def test_commands_are_found():
    assert {words[0] for words in COMMANDS.values()} >= {"make", "tandem", "python", "pip", "ray", "docker"}


def test_no_command_is_in_a_block_that_is_not_looked_at():
    heads = ("make", "tandem", "python", "pip", "ray", "docker", "curl", "export")
    others = [block for page in PAGES for block in blocks(page) if block.language not in SHELL]
    assert [str(block) for block in others if block.text.split(maxsplit=1)[0] in heads] == []


MARKS = [found for block in shell_blocks() if (found := mark(block))]


@pytest.mark.parametrize("found", MARKS, ids=lambda found: str(found.block))
def test_a_mark_names_a_test_that_knows_the_page_or_the_command(found: Mark):
    text = found.test.read_text()
    assert "def test_" in text
    if found.how == "run":
        assert found.block.page.name in text


def test_a_note_of_commands_is_a_mark():
    assert [str(block) for block in shell_blocks() if block.note and mark(block) is None] == []
