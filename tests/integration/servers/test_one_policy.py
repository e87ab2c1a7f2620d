"""The teams of one model, with the real apps and no executor server: `single` has the tools, `unified` two seats.

One run of each is recorded; each test looks at one thing that must hold of it.
"""

import asyncio
import json
import sqlite3
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from executor_server.audit.compare import Audit, audit
from executor_server.audit.record import read
from shared.cli.server import Server
from shared.errors import UserError
from shared.ids import new_id
from shared.schemas.invocation import EvaluationRequest, EvaluationView
from shared.schemas.rollout import GroupView
from shared.schemas.run import RunStatus
from shared.schemas.stream import StepStatistics
from shared.schemas.views import RolloutView, WorkerRow
from tests.listening import listening

from .trio import Trio, answers, calls, http, trio

STEPS, GROUPS, K = 2, 2, 8
# In 32 rollouts, calls and answers of every kind are each expected more than ten times.
POLICY = {**answers(), **calls("planner", 1.25)}
ENVIRONMENT = "tests.parity_environment:OneVocabulary"
SETTINGS: dict[str, dict[str, Any]] = {
    "single": {"limits": {"max_turns": 3, "max_calls": 3, "tool_timeout_s": 30.0}},
    "unified": {
        "limits": {"max_turns": 3, "max_calls": 3},
        "executor_limits": {"max_new_tokens": 2, "max_turns": 2, "max_context_tokens": 100},
    },
}


@dataclass
class Record:
    """What was seen of one team's run; `stored` is every row of the planner server's store, by id."""

    team: str
    status: RunStatus
    steps: list[StepStatistics]
    workers: list[WorkerRow]
    rollouts: list[RolloutView]
    audits: list[Audit]
    evaluation: EvaluationView
    refused: int
    stored: dict[str, dict[str, Any]]
    folder: Path

    def total(self, key: str) -> float:
        return sum(step.statistics.get(key, 0.0) for step in self.steps)

    def rows(self, role: str) -> dict[str, dict[str, Any]]:
        return {id: row for id, row in self.stored.items() if row["role"] == role}


async def walk(postgres_url: str, redis_url: str, folder: Path, team: str) -> Record:
    async with trio(postgres_url, redis_url, folder) as servers:
        planner = await servers.start_planner(POLICY, team=team, environment=ENVIRONMENT, **SETTINGS[team])
        await servers.declare(steps=STEPS, groups_per_step=GROUPS, rollouts_per_group=K, trained_roles=("planner",))
        status = await servers.finished()
        async with http(planner) as client:
            evaluation = await evaluate(client)
            path, other = f"/v1/evaluations/{new_id()}", request(executor_checkpoint="initial")
            refused = (await client.put(path, content=other.model_dump_json())).status_code
        steps = await servers.client.steps(servers.run)
        async with listening(servers.sync) as url:
            told = await asyncio.to_thread(look, url, servers)
    return Record(team, status, steps, *told, evaluation, refused, rows(folder / "planner"), folder)


def request(**changes: Any) -> EvaluationRequest:
    return EvaluationRequest(split="test", n=20, planner_checkpoint="latest", **changes)


async def evaluate(client: Any) -> EvaluationView:
    path = f"/v1/evaluations/{new_id()}"
    async with asyncio.timeout(60):
        await client.put(path, content=request().model_dump_json())
        while True:
            view = EvaluationView.model_validate_json((await client.get(path)).content)
            if view.state != "running":
                return view
            await asyncio.sleep(0.01)


def look(url: str, servers: Trio) -> tuple[list[WorkerRow], list[RolloutView], list[Audit]]:
    with Server(url, None, "the sync service") as server:
        groups = list(server.items(f"/v1/runs/{servers.run}/groups", GroupView))
        workers = list(server.items(f"/v1/runs/{servers.run}/workers", WorkerRow))
        rollouts = [r for g in groups for r in server.items(f"/v1/groups/{g.group}/rollouts", RolloutView)]
        return workers, rollouts, [audit(read(server, g.group, whole_step=g.index == 0)) for g in groups]


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    query = "SELECT id, role, facts, length(mask), purgeable, updates FROM trajectories"
    with sqlite3.connect(folder / "trajectories.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM spool").fetchone() == (0,)
        return {
            id: json.loads(facts) | {"role": role, "tokens": tokens, "purgeable": purgeable, "updates": updates}
            for id, role, facts, tokens, purgeable, updates in connection.execute(query)
        }


@pytest.fixture(scope="module")
def records(postgres_url: str, redis_url: str, module_folder: Path) -> dict[str, Record]:
    async def side_by_side() -> list[Record]:
        return await asyncio.gather(*(walk(postgres_url, redis_url, module_folder / team, team) for team in SETTINGS))

    return dict(zip(SETTINGS, asyncio.run(side_by_side()), strict=True))


@pytest.fixture(params=list(SETTINGS))
def record(records: dict[str, Record], request: pytest.FixtureRequest) -> Record:
    return records[request.param]


@pytest.fixture
def unified(records: dict[str, Record]) -> Record:
    return records["unified"]


def test_the_run_finishes_and_no_executor_is_waited_for(record: Record):
    assert record.status.rollouts == {"reported": STEPS * GROUPS * K}
    assert (set(record.status.roles), record.status.trajectories) == ({"planner"}, {})
    assert {worker.role for worker in record.workers} <= {"planner"}
    assert [(step.step, step.outcome, step.updates) for step in record.steps] == [(1, "trained", 1), (2, "trained", 2)]


def test_the_weights_change(record: Record):
    before = load_file(record.folder / "planner" / "model" / "model.safetensors")
    after = load_file(record.folder / "planner" / "checkpoints" / f"step-{STEPS}" / "model.safetensors")
    assert any((before[name] != after[name]).any() for name in before)


def test_calls_are_counted_where_they_are_known(record: Record):
    counted = Counter(row["calls"] for row in record.rows("planner").values())
    told = Counter()
    for step in record.steps:
        told.update({int(calls): rollouts for calls, rollouts in step.histograms["calls_per_rollout"].items()})
    assert told == counted
    assert record.total("calls_mean") * GROUPS * K == pytest.approx(sum(n * c for n, c in counted.items()))
    assert {0, 1} <= set(counted)


def test_the_sync_service_knows_the_rollouts_alone(record: Record):
    assert {rollout.planner_trajectory for rollout in record.rollouts} == set(record.rows("planner"))
    assert {rollout.executor_trajectories for rollout in record.rollouts} == {()}
    assert {rollout.multiplicity for rollout in record.rollouts if rollout.fate_reason != "dead-group"} == {1}


def test_every_group_is_what_is_computed_again_from_the_record(record: Record):
    assert [len(one.parts) for one in record.audits] == [1] * STEPS * GROUPS
    assert [one.differences for one in record.audits] == [[]] * STEPS * GROUPS


def test_an_evaluation_needs_no_executor_and_names_none(record: Record):
    view = record.evaluation
    assert (view.state, len(view.correct), len(view.calls)) == ("done", 20, 20)
    assert max(view.calls) > 0
    assert (view.executor_format_rate is not None) == (record.team == "unified")
    assert record.refused == 422


def test_a_checkpoint_releases_whole_trees(record: Record):
    assert {row["purgeable"] for row in record.stored.values()} == {1}


def test_a_single_model_has_one_row_a_rollout(records: dict[str, Record]):
    single = records["single"]
    assert not single.rows("executor")
    assert (single.total("rows_distinct"), single.total("rows_delegated")) == (STEPS * GROUPS * K, 0)


def test_the_tree_of_a_rollout_is_stored_with_it_and_is_its_rows(unified: Record):
    parts = [(id, part) for id, row in unified.rows("planner").items() for part in row["parts"]]
    assert {part for _, part in parts} == set(unified.rows("executor"))
    assert all(unified.stored[part]["request"]["rollout"] == rollout for rollout, part in parts)
    assert all(row["parts"] == row["invocations"] for row in unified.rows("planner").values())
    assert unified.total("rows_delegated") == len(parts) > 0
    assert unified.total("rows_distinct") == len(unified.stored)


def test_the_report_is_of_the_whole_tree(unified: Record):
    for rollout in unified.rollouts:
        root = unified.stored[str(rollout.planner_trajectory)]
        tree = [root, *(unified.stored[part] for part in root["parts"])]
        assert rollout.tokens == sum(row["tokens"] for row in tree)
        assert rollout.version is not None
        assert rollout.version.updates == min(row["updates"] for row in tree)


def test_a_delegation_has_the_executors_tools_and_limits(unified: Record):
    delegated = unified.rows("executor").values()
    assert any(call["result"]["state"] == "ok" for row in delegated for call in row["calls"])
    assert max(row["tokens"] for row in delegated) <= 100
    assert {row["answer"]["turns"] for row in delegated} >= {1, 2}


async def test_trees_are_trained_again_after_a_restart_and_none_is_lost(postgres_url, redis_url, tmp_path: Path):
    settings = SETTINGS["unified"] | {"team": "unified", "environment": ENVIRONMENT}
    async with trio(postgres_url, redis_url, tmp_path) as servers:
        await servers.declare(rollouts_per_group=K, trained_roles=("planner",))
        async with AsyncExitStack() as first:
            await replace(servers, stack=first).start_planner(POLICY, **settings)
            await servers.status_where(lambda status: status.roles["planner"].acked_step >= 1)
        assert not (tmp_path / "planner" / "checkpoints" / "step-1").exists()
        await servers.start_planner(POLICY, **settings)
        await servers.finished()
        steps = await servers.client.steps(servers.run)
    assert [(step.step, step.updates) for step in steps] == [(1, 1), (2, 2)]
    assert set().union(*(step.histograms["fates"] for step in steps)) <= {"trained", "dead-group"}
    stored = rows(tmp_path / "planner")
    named = {id for row in stored.values() if row["role"] == "planner" for id in row["parts"]}
    assert {id for id, row in stored.items() if row["role"] == "executor"} == named


async def test_a_run_that_trains_an_executor_is_refused_at_first_contact(postgres_url, redis_url, tmp_path: Path):
    async with trio(postgres_url, redis_url, tmp_path) as servers:
        await servers.declare()
        await servers.start_planner(POLICY, team="unified", environment=ENVIRONMENT, **SETTINGS["unified"])
        with pytest.raises(UserError, match="trains the executor, but this planner server's team is unified"):
            await servers.finished()
