"""What the OpenAPI document allows, and what it does not, with each role's key: no answer is a 5xx."""

import asyncio
import contextlib
from pathlib import Path

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode

from shared.client import SyncClient
from shared.schemas.base import KEY_ROLES, KeyRole
from sync_service.config import SyncConfig
from tests.faults import keyring
from tests.faults.test_state_machine import LONG
from tests.integration.sync.builder import Builder

ANSWER_S = 30.0


@pytest.fixture
def keys(database: str) -> dict[KeyRole, str]:
    """A key of each role, before the service starts."""
    return keyring.issue(database.replace("+psycopg", ""))


@pytest.fixture
def sync_config(database: str, keys: dict[KeyRole, str], tmp_path: Path) -> SyncConfig:
    """The service with keys."""
    return SyncConfig(database_url=database, reaper_s=3600, poll_s=0.05, disk_folder=tmp_path)


@pytest.fixture
async def known(build: Builder, port: int, keys: dict[KeyRole, str]) -> dict[str, str]:
    """Values for parameters and fields that name things which exist."""
    async with SyncClient(f"http://127.0.0.1:{port}", key=keys["operator"]) as operator:
        await operator.declare_run(build.run, build.spec)
    async with (
        SyncClient(f"http://127.0.0.1:{port}", key=keys["planner"]) as planner,
        SyncClient(f"http://127.0.0.1:{port}", key=keys["executor"]) as executor,
    ):
        build.client = planner
        group = await build.open()
        rollouts = [build.rollout(group, slot) for slot in (0, 1)]
        await build.report(*rollouts)
        build.client = executor
        scores = [score for rollout in rollouts for score in build.scores(rollout)]
        await build.send(scores)
    (delivery, *_) = await build.sql("SELECT id::text FROM deliveries")
    return {
        "run": build.run,
        "group": group,
        "rollout": rollouts[0].id,
        "trajectory": scores[0].id,
        "delivery": delivery.id,
    }


@pytest.mark.parametrize("role", KEY_ROLES)
async def test_no_answer_is_a_5xx(
    sync_app: FastAPI, port: int, keys: dict[KeyRole, str], known: dict[str, str], role: KeyRole
) -> None:
    schema = schemathesis.openapi.from_dict(sync_app.openapi())
    headers = {"Authorization": f"Bearer {keys[role]}"}
    seen: set[int] = set()

    def all_calls() -> None:
        for result in schema.get_all_operations():
            operation = result.ok()
            for mode in GenerationMode:
                attack(operation.as_strategy(mode), mode is GenerationMode.POSITIVE)

    def attack(cases: st.SearchStrategy[Case], existing: bool) -> None:
        @settings(
            max_examples=60 if LONG else 2,
            deadline=None,
            derandomize=not LONG,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(case=cases)
        def call(case: Case) -> None:
            aim(case, known if existing else {})
            answer = case.call(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=ANSWER_S)
            seen.add(answer.status_code)
            assert answer.status_code < 500, (case.as_curl_command(), answer.text)

        with contextlib.suppress(Unsatisfiable):  # a call without parameters can be made in one way only
            call()

    await asyncio.to_thread(all_calls)
    assert {200, 403, 422} <= seen


def aim(case: Case, known: dict[str, str]) -> None:
    """Let a case name what exists, and wait for nothing."""
    for name in known.keys() & case.path_parameters.keys():
        case.path_parameters[name] = known[name]
    if isinstance(case.body, dict):
        case.body |= {name: known[name] for name in known.keys() & case.body.keys()}
        if isinstance(case.body.get("wait_s"), int | float):
            case.body["wait_s"] = 0
    if case.query and "wait" in case.query:
        case.query["wait"] = 0
    if case.headers and "text/event-stream" in str(case.headers.get("accept", "")):
        del case.headers["accept"]
