"""The demo as a user runs it: a process, a folder, an exit code."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.demo_process import LIMIT_S, TANDEM, Demo


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/e2e/" in item.nodeid:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(2 * LIMIT_S))


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two barely warmed-up models, as overrides of the demo."""
    home = tmp_path_factory.mktemp("models")
    for role in ("planner", "executor"):
        command = [TANDEM, "warmup", "--environment", "atlas", "--role", role, "--steps", "5", "--json"]
        subprocess.run([*command, "--out", home / role], check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)
    return [f"warmup.models.{role}={home / role}" for role in ("planner", "executor")]


@pytest.fixture
def start(tmp_path: Path, models: list[str]) -> Iterator:
    """Start a smoke run in `tmp_path / "run"`; everything is gone when the test is over."""
    started: list[Demo] = []

    def demo(*overrides: str) -> Demo:
        folder = tmp_path / "run"
        started.append(Demo(tmp_path / "demo.log", "demo", "--smoke", "--folder", folder, *models, *overrides))
        return started[-1]

    yield demo
    for one in started:
        one.children()
        one.process.kill()
        one.process.wait()
        assert one.left_behind() == []
