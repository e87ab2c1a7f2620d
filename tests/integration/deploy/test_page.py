"""Every `docker compose` line of the pages names files, hosts, profiles, services and commands that there are."""

import re
import shlex

import pytest

from sync_service import command as sync_command
from tests.integration.deploy.compose import DEPLOY, SET, STACKS, stack
from tests.integration.docs.markdown import PAGES, ROOT, blocks

PAGE = ROOT / "docs" / "deployment.md"
LINES = [line.strip() for page in PAGES for block in blocks(page) for line in block.text.splitlines()]
SHOWN = [line for line in LINES if "docker compose" in line]


@pytest.mark.parametrize("line", [*SHOWN], ids=range(len(SHOWN)))
def test_a_line_starts_a_stack_that_there_is(line: str):
    words = shlex.split(line[line.index("docker compose") :])
    given = {name: [words[at + 1] for at, word in enumerate(words) if word == name] for name in ("-f", "--profile")}
    files = tuple(given["-f"]) or ("compose.yaml",)
    name = next(name for name, known in STACKS.items() if known == files)
    (host,) = re.findall(r"secrets/(\w+)/compose.env", line)
    assert (host == "control") == (name == "control")
    services = stack(name, "planner" if host == "control" else host)["services"]
    assert {*given["--profile"]} <= {each for service in services.values() for each in service.get("profiles", [])}
    for command in {"exec", "logs", "stop", "run"} & {*words}:
        assert {*words[words.index(command) + 1 :]} & services.keys()
    match words[words.index("exec") + 2 :] if "exec" in words else []:
        case ["python", "-m", "sync_service", *arguments]:
            assert sync_command._parser().parse_args(arguments)


def test_every_stack_is_shown_but_the_one_that_is_in_the_table():
    shown = {tuple(re.findall(r"-f (\S+)", line)) or ("compose.yaml",) for line in SHOWN}
    assert {*STACKS.values()} - shown == {STACKS["cpu"]}
    assert "compose.cpu.yaml" in PAGE.read_text()


def test_every_variable_that_a_person_may_set_is_on_the_page():
    text = "".join(file.read_text() for file in DEPLOY.glob("compose*.yaml"))
    names = {*re.findall(r"\$\{(TANDEM_\w+)", text)}
    made = {"TANDEM_UID", "TANDEM_GID", "TANDEM_ROLE", "TANDEM_PEER", "TANDEM_SERVER_PORT"}
    assert names >= SET.keys()
    assert [name for name in sorted(names - made) if name not in PAGE.read_text()] == []
