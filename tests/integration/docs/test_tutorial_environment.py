"""docs/tutorial-environment.md: its files, written out as they stand, are an environment that works."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from executor_server.config import ExecutorConfig
from planner_server.config import PlannerConfig
from shared.agents.chat import ChatFormat
from shared.agents.limits import Limits
from shared.agents.loop import run_agent
from shared.agents.protocol import Call, render_answer, render_call
from shared.agents.toolbox import Toolbox
from shared.config import load
from shared.environments.base import SPLITS, Environment, ToolContext, Trace
from shared.environments.registry import load_environment
from shared.policy.types import Completion, SamplingParams
from shared.schemas.base import PolicyVersion
from tests.integration.docs.markdown import ROOT, blocks
from tests.unit.agents.small_tokenizers import byte_level

PAGE = ROOT / "docs" / "tutorial-environment.md"
NAMED = [block for block in blocks(PAGE) if block.note and block.language not in ("text", "bash")]
FILES = {block.note.split()[-1]: block.text for block in NAMED}
(OUTPUT,) = [block.text for block in blocks(PAGE, "text")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def museum(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "museum", raising=False)
    return load_environment("museum:Museum", {"tasks": str(folder / "tasks.jsonl")})


def test_trying_it_prints_what_the_page_says(folder: Path):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "try_it.py"]
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.stderr, result.stdout) == ("", OUTPUT)


def test_every_task_of_every_split_can_be_answered(museum: Environment):
    for split in SPLITS:
        task = museum.task(split, 3, 1)
        assert task == museum.task(split, 3, 1)
        assert museum.correctness(task, f" {task.answer.upper()} ") == 1.0
        assert museum.correctness(task, "something else") == 0.0


class Scripted:
    """A sampler that writes given turns."""

    def __init__(self, chat: ChatFormat, turns: list[str]) -> None:
        self._turns = iter([chat.turn(turn) for turn in turns])

    async def generate(self, prompt_ids, params, *, checkpoint=None) -> Completion:
        ids = next(self._turns)
        return Completion(ids, [-0.1] * len(ids), PolicyVersion(epoch=1, step=0, updates=0), "stop")

    async def load_weights(self, folder, version) -> str:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


async def test_an_invocation_is_run_and_judged(museum: Environment):
    subtask = "museum of The Kiss"
    toolbox = Toolbox(museum.tools())
    chat = ChatFormat(byte_level(), toolbox.schemas())
    turns = [
        render_call(Call("search", {"words": "kiss"})),
        render_call(Call("read", {"title": "The Kiss"})) + render_call(Call("read", {"title": "Prado"})),
        render_answer("Belvedere"),
    ]
    episode = await run_agent(
        Scripted(chat, turns),
        chat,
        toolbox.bound(ToolContext("train", "1", subtask)),
        system=museum.system_prompt("executor"),
        user=subtask,
        limits=Limits(max_context_tokens=8000),
        params=SamplingParams(max_new_tokens=512),
    )
    assert (episode.r_format, episode.answer, episode.status) == (1, "Belvedere", "ok")
    assert [call.result.state for call in episode.calls] == ["ok", "ok", "error"]
    assert museum.expert_score(Trace(subtask, episode.calls, "Belvedere")) == 1.0
    assert museum.expert_score(Trace(subtask, episode.calls, "Louvre")) == 0.5
    assert museum.expert_score(Trace(subtask, (), "Belvedere")) == 0.0


def test_the_servers_accept_the_files(folder: Path):
    planner, executor = load(PlannerConfig, folder / "planner.toml"), load(ExecutorConfig, folder / "executor.toml")
    assert planner.run == executor.run
    assert planner.executor_url.endswith(f":{executor.port}")
