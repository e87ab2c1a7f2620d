"""deploy/Dockerfile, taken apart, and its package steps run without Docker: in a folder and a virtual environment."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.docs.markdown import ROOT

DOCKERFILE = ROOT / "deploy" / "Dockerfile"
FLAG = re.compile(r"^--\S+\s+")


@dataclass(frozen=True, slots=True)
class Stage:
    """One `FROM image AS name` with its instructions, as pairs of a word and the rest."""

    image: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def of(self, instruction: str) -> list[str]:
        """What stands behind each of these instructions, without its flags."""
        return [_bare(rest) for word, rest in self.steps if word == instruction]


def stages() -> dict[str, Stage]:
    """Every stage by its name."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found: dict[str, Stage] = {}
    for line in filter(None, text.splitlines()):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            image, _, name = rest.split()
            found[name] = Stage(image)
        else:
            found[name].steps.append((word, rest.strip()))
    return found


def replay(name: str, source: Path, wheels: Path, bin_folder: Path) -> None:
    """Do what the stage and those it starts from copy and install by pip: /src is `source`, /wheels is `wheels`."""
    stage, every = stages()[name], stages()
    if stage.image in every:
        replay(stage.image, source, wheels, bin_folder)
    for word, rest in stage.steps:
        if word == "COPY":
            *files, target = _bare(rest).split()
            for file in files:
                _copy(ROOT / file, source / target / file if target == "./" else source / target)
        elif word == "RUN" and "pip " in rest:
            _run(_bare(rest).replace("/wheels", str(wheels)), source, bin_folder)


def resolved(line: str, wheels: Path, **environment: str) -> dict[str, str]:
    """What a package step would install into this environment, by name: pip resolves it, and installs nothing."""
    told = "pip install --dry-run --quiet --report -"
    given = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "PYTHONPATH"))}
    given |= {"PATH": f"{Path(sys.executable).parent}:{given['PATH']}", "PIP_CONFIG_FILE": os.devnull, **environment}
    words = ["sh", "-c", line.replace("/wheels", str(wheels)).replace("pip install", told)]
    result = subprocess.run(words, cwd=ROOT, env=given, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    found = [package["metadata"] for package in json.loads(result.stdout)["install"]]
    return {package["name"]: package["version"] for package in found}


def _copy(file: Path, target: Path) -> None:
    if file.is_dir():
        shutil.copytree(file, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    else:
        shutil.copy(file, target)


def _run(line: str, source: Path, bin_folder: Path) -> None:
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    clean["PATH"] = f"{bin_folder}:{clean['PATH']}"
    result = subprocess.run(["sh", "-c", line], cwd=source, env=clean, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]


def _bare(rest: str) -> str:
    while FLAG.match(rest):
        rest = FLAG.sub("", rest, count=1)
    return rest.strip()
