"""deploy/Dockerfile: linted, exact versions, a target for each image, nothing in the context but what it copies.

The package steps of the target `sync` are run by tests/integration/test_packaging.py. No image is built here.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.integration.deploy.compose import EXACT, STACKS, stack
from tests.integration.deploy.dockerfile import DOCKERFILE, stages
from tests.integration.docs.markdown import ROOT

STAGES = stages()
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_hadolint_finds_nothing():
    command = [Path(sys.executable).parent / "hadolint", "--no-color", DOCKERFILE]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_starts_from_another_or_from_an_exact_version(name: str):
    image = STAGES[name].image
    assert image in STAGES or EXACT.fullmatch(image)


def test_every_target_that_is_built_exists_and_ends_as_an_account_without_rights():
    built = {}
    for name in STACKS:
        for service in stack(name)["services"].values():
            if "build" in service:
                built[service["image"]] = service["build"]["target"]
    assert {*built.values()} == STAGES.keys() - {"base", "wheel"}
    for target in built.values():
        assert int(STAGES[target].of("USER")[-1]) > 0
    for image, target in built.items():
        assert image.startswith(f"tandem-{target}:0.1.0")


def test_the_control_plane_installs_the_extra_that_has_no_torch():
    (line,) = STAGES["sync"].of("RUN")
    assert re.findall(r"\[([\w,]+)\]", line) == ["sync"]
    assert not [each for each in EXTRAS["sync"] if each.startswith(("torch", "transformers", "ray", "vllm", "tandem"))]


@pytest.mark.parametrize("name", ["sync", "role", "demo"])
def test_extras_exist_and_versions_are_those_of_the_constraints(name: str):
    (line,) = [line for line in STAGES[name].of("RUN") if "pip " in line]
    (extras,) = re.findall(r"\$1\[([\w,]+)\]", line)
    assert {*extras.split(",")} <= EXTRAS.keys()
    assert "--constraint constraints.txt" in line


def test_the_context_has_what_is_copied_and_no_secret():
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = {file for stage in STAGES.values() for copy in stage.of("COPY") for file in copy.split()[:-1]}
    assert all(any(file == each or file.startswith(f"{each}/") for each in allowed) for file in copied)
    assert not [each for each in allowed if "secrets" in each]
    assert (ROOT / ".dockerignore").read_text().splitlines()[1] == "*"
