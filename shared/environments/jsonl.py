"""Tasks from a JSONL file, one a line: {"query": "...", "answer": "...", "split": "test", "id": "...", "metadata": {}}.

A line without `split` is for training, one without `id` is named by its number. An environment over such a file writes
tools and rewards only:

    class Trivia(JsonlEnvironment):
        name = "trivia"

        @reward("correctness")
        def same(self, task: Task, answer: str) -> float:
            return float(answer.casefold() == task.answer.casefold())
"""

import random
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from shared.environments.base import SPLITS, Environment, Split, Task
from shared.errors import UserError


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    query: str
    answer: str
    split: Split = "train"
    id: str | None = None
    metadata: dict[str, Any] = {}


def read_tasks(path: Path) -> dict[Split, tuple[Task, ...]]:
    """The tasks of each split in the order of the file; UserError names the file and the line that is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"tasks {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"tasks {path}: not a text in UTF-8") from None
    tasks: dict[Split, list[Task]] = {split: [] for split in SPLITS}
    seen: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        read = _parse(path, number, line)
        task = Task(read.id or str(number), read.query, read.answer, read.metadata)
        if task.id in seen:
            raise UserError(f"{path}:{number}: the id {task.id!r} stands in line {seen[task.id]} already")
        seen[task.id] = number
        tasks[read.split].append(task)
    return {split: tuple(of_split) for split, of_split in tasks.items()}


def _parse(path: Path, number: int, line: str) -> _Line:
    try:
        return _Line.model_validate_json(line)
    except ValidationError as error:
        faults = "; ".join(_fault(fault) for fault in error.errors())
        raise UserError(f"{path}:{number}: {faults}") from None


def _fault(fault: Any) -> str:
    field = ".".join(map(str, fault["loc"]))
    if fault["type"] == "extra_forbidden":
        return f"unknown field {field!r}; the fields: {', '.join(_Line.model_fields)}"
    return f"{field}: {fault['msg']}" if field else fault["msg"]


class JsonlEnvironment(Environment):
    """An environment whose tasks are those of the file `tasks`; each pass over a split has an order of its own."""

    def __init__(self, tasks: str) -> None:
        self.tasks = read_tasks(Path(tasks))

    def task(self, split: Split, seed: int, index: int) -> Task:
        """The task at `index`; UserError where the file has none of the split."""
        tasks = self.tasks[split]
        if not tasks:
            raise UserError(f"environment {self.name}: its file has no task of the split {split}")
        pass_, place = divmod(index, len(tasks))
        return tasks[_order(len(tasks), f"{split}/{seed}/{pass_}")[place]]


@lru_cache(maxsize=16)
def _order(count: int, key: str) -> tuple[int, ...]:
    places = list(range(count))
    random.Random(key).shuffle(places)
    return tuple(places)
