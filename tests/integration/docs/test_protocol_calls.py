"""docs/protocol.md describes every call of the three apps, with its query, body and answer, and no call besides."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

import executor_server.app
import planner_server.app
import sync_service.app
from executor_server.config import ExecutorConfig
from planner_server.config import PlannerConfig
from sync_service.config import SyncConfig
from tests.integration.docs.protocol_page import EXAMPLES, FIELDS, PAGE, Call, calls, in_code, named

SERVER: dict[str, Any] = {
    "run": "walk",
    "worker": "one",
    "auth": "loopback",
    "sync_url": "http://sync",
    "folder": Path("runs"),
    "environment": "atlas",
    "policy": {"model": Path("model")},
}
APPS: dict[str, Callable[[], FastAPI]] = {
    "sync": lambda: sync_service.app.create_app(SyncConfig(database_url="postgresql+psycopg://nobody@nowhere/none")),
    "planner": lambda: planner_server.app.create_app(PlannerConfig(**SERVER, executor_url="http://executor")),
    "executor": lambda: executor_server.app.create_app(ExecutorConfig(**SERVER)),
}
SECTIONS = {
    "sync": ("All three services", "Sync service"),
    "planner": ("All three services", "Both role servers", "Planner server"),
    "executor": ("All three services", "Both role servers", "Executor server"),
}


def served(app: FastAPI) -> Iterator[Call]:
    """The calls of the app's OpenAPI."""
    for path, methods in app.openapi()["paths"].items():
        for method, operation in methods.items():
            query = tuple(sorted(p["name"] for p in operation.get("parameters", ()) if p["in"] == "query"))
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            body = content.get("schema", {}).get("title", "")
            yield Call(f"{method.upper()} {path}", query, body, _answer(operation["responses"]))


def _answer(responses: dict[str, Any]) -> str:
    """The schema's name, `204`, or `-` for one that has no schema of ours."""
    if "204" in responses:
        return "204"
    reference = responses["200"]["content"]["application/json"]["schema"].get("$ref", "-")
    return re.sub(r"^Page_(\w+)_$", r"Page[\1]", reference.rpartition("/")[2])


def everything() -> list[Call]:
    return [call for section in sorted({s for part in SECTIONS.values() for s in part}) for call in calls(section)]


@pytest.mark.parametrize("name", APPS)
def test_the_calls_are_those_of_the_app(name: str):
    described = [call for section in SECTIONS[name] for call in calls(section)]
    assert sorted(described) == sorted(served(APPS[name]()))


def test_every_body_and_answer_is_shown():
    shown = {named(block) for block in EXAMPLES} | {in_code(table[0][0]) for table in FIELDS}
    used = {name for call in everything() for name in (call.body, call.answer)} - {"", "-", "204"}
    assert {name for name in used if name not in shown and re.sub(r"Page\[(\w+)\]", r"\1", name) not in shown} == set()


def test_a_call_in_the_text_exists():
    spelt = set(re.findall(r"`((?:GET|PUT|POST|DELETE) /[^` ]+)`", PAGE.read_text()))
    assert spelt == {call.call for call in everything()}
