"""What `conduct` comes to, with the run itself replaced: the exit code, and the one line of JSON."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from shared.cli.demo.metrics import Metrics
from shared.cli.demo_llm import conductor
from shared.cli.demo_llm.follow import Follow
from shared.cli.demo_llm.outcome import Outcome
from shared.cli.demo_llm.settings import load_settings


@pytest.mark.parametrize(
    ("outcome", "code"), [(Outcome((1, 3), {2: ("planner",)}), 0), (Outcome((1,), {2: ("planner", "executor")}), 4)]
)
async def test_the_exit_code_says_whether_enough_steps_were_live(
    outcome: Outcome, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    settings = load_settings([])
    nothing: Any = SimpleNamespace()
    follow = Follow("run", settings, nothing, nothing, Metrics(tmp_path / "metrics.jsonl"), nothing)

    async def done(*_: object) -> tuple[Follow, Outcome]:
        return follow, outcome

    async def warmed(*_: object) -> dict:
        return {}

    monkeypatch.setattr(conductor, "check_configuration", lambda *_: None)
    monkeypatch.setattr(conductor, "warm_up", warmed)
    monkeypatch.setattr(conductor, "_co_train", done)
    folder = tmp_path / "run"
    folder.mkdir()
    assert await conductor.conduct(folder, settings, tmp_path / "model", Console(width=60)) == code
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (printed["steps_live"], printed["steps_dead"]) == (len(outcome.live), 1)
    assert printed["dead"] == {"2": list(outcome.dead[2])}
    assert printed == json.loads((folder / "summary.json").read_text())
