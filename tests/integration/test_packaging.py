"""The wheel, in a clean environment: the control plane installs without torch, runs, and carries its data files.

Both are made by the steps of deploy/Dockerfile, from the files that it copies. Its targets with torch take 1.6 GB, so
their steps are resolved only, against the environment of the tests.
"""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.integration.deploy.dockerfile import replay, resolved, stages

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(600)


def run(*command: str | Path, cwd: Path) -> str:
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    result = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source, out = tmp_path_factory.mktemp("src"), tmp_path_factory.mktemp("wheels")
    replay("wheel", source, out, Path(sys.executable).parent)
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def control_plane(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with what the target `sync` installs; returns its python."""
    home = tmp_path_factory.mktemp("venv")
    run(sys.executable, "-m", "venv", home, cwd=home)
    replay("sync", tmp_path_factory.mktemp("src"), wheel.parent, home / "bin")
    return home / "bin" / "python"


def test_the_wheel_holds_the_four_packages_and_nothing_else(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"planner_server", "executor_server", "sync_service", "shared"}
    assert "shared/cli/demo/atlas.toml" in names
    assert any(name.startswith("sync_service/migrations/versions/") for name in names)
    pages = [path for path in (ROOT / "sync_service" / "dashboard").rglob("*.*") if path.suffix not in (".py", ".pyc")]
    assert {".html", ".css", ".js", ".LICENSE"} <= {path.suffix for path in pages}
    assert [path.name for path in pages if path.relative_to(ROOT).as_posix() not in names] == []


def test_the_control_plane_has_no_torch(control_plane: Path, tmp_path: Path):
    code = (
        "import importlib.util as u, sys\n"
        "import sync_service.app, shared.client\n"
        "banned = ['torch', 'transformers', 'ray', 'vllm']\n"
        "assert not [m for m in banned if u.find_spec(m) or m in sys.modules]\n"
    )
    run(control_plane, "-c", code, cwd=tmp_path)


def test_its_commands_answer(control_plane: Path, tmp_path: Path):
    assert "--database-url" in run(control_plane, "-m", "sync_service", "serve", "--help", cwd=tmp_path)
    assert "demo" in run(control_plane.parent / "tandem", "--help", cwd=tmp_path)


@pytest.mark.parametrize("target", ["role", "demo"])
def test_what_a_target_with_torch_installs_is_what_is_tested_here(target: str, wheel: Path):
    for line in stages()[target].of("RUN"):
        assert resolved(line, wheel.parent, PIP_NO_INDEX="1") == {"tandem-cotrain": "0.1.0"}


def test_the_build_of_torch_is_that_of_the_index_that_is_chosen(tmp_path: Path):
    """Both have the version of constraints.txt; that of PyTorch's own index has a local part behind it, and wins."""
    (line,) = stages()["role"].of("RUN")
    step = re.sub(r'"\$1\[.*?\]"', "--no-deps --ignore-installed torch", line.partition("&& ")[2])
    (pinned,) = re.findall(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)
    pypi = index(tmp_path / "pypi", pinned)
    rocm = index(tmp_path / "rocm", f"{pinned}+rocm7.2")
    assert resolved(step, tmp_path, PIP_INDEX_URL=pypi) == {"torch": pinned}
    assert resolved(step, tmp_path, PIP_INDEX_URL=pypi, TORCH_INDEX=rocm) == {"torch": f"{pinned}+rocm7.2"}


def index(folder: Path, version: str) -> str:
    """The address of a package index that has an empty torch of that version."""
    page = folder / "torch"
    page.mkdir(parents=True)
    name = f"torch-{version}-py3-none-any.whl"
    with zipfile.ZipFile(page / name, "w") as made:
        about = f"torch-{version}.dist-info"
        made.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        made.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{about}/RECORD", "")
    (page / "index.html").write_text(f'<a href="{name.replace("+", "%2B")}">{name}</a>')
    return folder.as_uri()
