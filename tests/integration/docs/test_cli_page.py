"""docs/cli.md has each command of `tandem --help`, with its options and its examples; each command shows an example."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from shared.cli.main import build
from tests.integration.docs.markdown import ROOT, sections, tables

PAGE = ROOT / "docs" / "cli.md"
SHARED = ("--url", "--key-file", "--json")
"""Described once, for all commands that ask a service."""
OTHER = {"Calling", "Completion", "The servers"}
SERVERS = ("sync-service", "planner-server", "executor-server")


def commands(group: Any = None, path: str = "tandem") -> Iterator[tuple[str, Any]]:
    """Every command by its full name; those of the servers parse their own words."""
    for name, command in (group or get_command(build())).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        elif name not in SERVERS:
            yield f"{path} {name}", command


COMMANDS = dict(commands())
SECTIONS = sections(PAGE, 2)


def test_the_page_has_these_commands_and_no_other():
    assert set(SECTIONS) - OTHER == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_on_the_page_as_it_is(name: str):
    parameters = COMMANDS[name].params
    own = [p for p in parameters if p.opts[0] not in SHARED or p.name == "json_lines"]
    spelt = [", ".join([*p.opts, *p.secondary_opts]) if p.opts[0].startswith("-") else p.name.upper() for p in own]
    described = [row[0].replace("`", "") for table in tables(SECTIONS[name]) for row in table[1:]]
    assert described == spelt


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_has_examples_and_the_page_has_them_too(name: str):
    examples = re.findall(r"^Examples?: (.+?)(?:\n\n|\Z)", COMMANDS[name].help, flags=re.MULTILINE | re.DOTALL)
    assert examples, COMMANDS[name].help
    for example in " ".join(examples[0].split()).split("; "):
        assert example.startswith(name)
        assert example in SECTIONS[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_asks_a_service_has_the_shared_options(name: str):
    names = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert "--json" in names or name in ("tandem demo", "tandem demo-llm")
    assert ("--url" in names) == ("--key-file" in names)
