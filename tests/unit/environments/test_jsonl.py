"""A user's environment in one short file: tools and rewards by decorator, tasks from a JSONL file."""

import json

import pytest

from shared.agents.toolbox import Toolbox
from shared.environments.base import Task, ToolCall, ToolContext, ToolError, ToolResult, Trace, reward, tool
from shared.environments.jsonl import JsonlEnvironment, read_tasks
from shared.environments.registry import load_environment
from shared.errors import UserError

CAPITALS = {"France": "Paris", "Japan": "Tokyo"}


class Capitals(JsonlEnvironment):
    name = "capitals"

    @tool
    def lookup(self, context: ToolContext, country: str) -> str:
        """The capital of a country."""
        if country not in CAPITALS:
            raise ToolError("no such country")
        return CAPITALS[country]

    @reward("correctness")
    def same(self, task: Task, answer: str) -> float:
        return float(answer.strip() == task.answer)

    @reward("expert", weight=0.75)
    def looked_up(self, trace: Trace) -> float:
        return float(any(call.result.state == "ok" for call in trace.calls))

    @reward("expert", weight=0.25)
    def is_short(self, trace: Trace) -> float:
        return float(len(trace.answer) < 20)


@pytest.fixture
def file(tmp_path):
    def write(*lines) -> str:
        path = tmp_path / "tasks.jsonl"
        path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
        return str(path)

    return write


@pytest.fixture
def capitals(file) -> Capitals:
    tasks = [{"query": f"q{i}", "answer": f"a{i}"} for i in range(5)]
    held_out = {"query": "q", "answer": "a", "split": "test", "id": "only", "metadata": {"kind": "easy"}}
    return load_environment(f"{__name__}:Capitals", {"tasks": file(*tasks, "", held_out)})


async def test_its_tools_work(capitals):
    toolbox = Toolbox(capitals.tools()).bound(ToolContext("train", "t", "s"))
    assert toolbox.schemas()[0]["description"] == "The capital of a country."
    assert await toolbox.call("lookup", {"country": "Japan"}) == ToolResult("ok", "Tokyo")
    assert await toolbox.call("lookup", {"country": "Mars"}) == ToolResult("error", "no such country")


def test_its_rewards_are_weighted_sums(capitals):
    call = ToolCall("lookup", {"country": "Japan"}, ToolResult("ok", "Tokyo"))
    assert capitals.correctness(Task("1", "q", "Paris"), " Paris ") == 1.0
    assert capitals.expert_score(Trace("s", (call,), "Tokyo")) == 1.0
    assert capitals.expert_score(Trace("s", (call,), "x" * 30)) == 0.75
    assert capitals.expert_score(Trace("s", (), "Tokyo")) == 0.25


def test_each_pass_holds_every_task_once_in_an_order_of_its_own(capitals):
    passes = [[capitals.task("train", 7, 5 * p + i).query for i in range(5)] for p in range(20)]
    assert all(sorted(queries) == ["q0", "q1", "q2", "q3", "q4"] for queries in passes)
    assert len(set(map(tuple, passes))) > 10
    assert passes == [[capitals.task("train", 7, 5 * p + i).query for i in range(5)] for p in range(20)]
    assert passes != [[capitals.task("train", 8, 5 * p + i).query for i in range(5)] for p in range(20)]


def test_fields_are_read(capitals):
    assert capitals.task("test", 0, 9) == Task("only", "q", "a", {"kind": "easy"})
    assert capitals.task("train", 0, 0).id in {"1", "2", "3", "4", "5"}


def test_a_split_without_a_task_is_said(capitals):
    with pytest.raises(UserError, match="capitals: its file has no task of the split validation"):
        capitals.task("validation", 0, 0)


GOOD = {"query": "q", "answer": "a"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (GOOD | {"qery": 1}, ":2: unknown field 'qery'; the fields: query, answer, split, id, metadata"),
        ({"query": "q"}, ":2: answer: Field required"),
        (GOOD | {"answer": 7}, ":2: answer: Input should be a valid string"),
        (GOOD | {"split": "dev"}, ":2: split: Input should be 'train', 'validation' or 'test'"),
        ("{not json", ":2: Invalid JSON"),
        ("[1]", ":2: Input should be an object"),
        (GOOD | {"id": "1"}, ":2: the id '1' stands in line 1 already"),
    ],
)
def test_a_wrong_line_is_named(file, line, message):
    with pytest.raises(UserError) as caught:
        load_environment(f"{__name__}:Capitals", {"tasks": file(GOOD, line)})
    assert f"tasks.jsonl{message}" in caught.value.detail


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"tasks .*nothing.jsonl: No such file"):
        read_tasks(tmp_path / "nothing.jsonl")


def test_a_file_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "binary.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not a text in UTF-8"):
        read_tasks(path)
