"""The main road with the three real apps: two untrained models that do everything, for three steps.

One run is recorded; each test looks at one thing that must hold of it.
"""

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from asgi_lifespan import LifespanManager
from safetensors.torch import load_file

from executor_server.audit.compare import Audit, audit
from executor_server.audit.record import read
from shared.cli.server import Server
from shared.ids import new_id
from shared.mgrpo.formula import formulas
from shared.schemas.invocation import EvaluationRequest, EvaluationView
from shared.schemas.rollout import GroupView
from shared.schemas.run import TERMS, Budget, PlannerReward, RunSpec, RunStatus
from shared.schemas.stream import StepStatistics
from sync_service.app import create_app
from sync_service.config import SyncConfig
from tests.listening import listening
from tests.parity_environment import LONG, MALFORMED, STRANGER, call, twice

from .trio import Trio, answers, calls, http, trio

STEPS, D_MAX = 3, 2
SLOTS = 4 * 8
# In 96 rollouts each thing that a test below looks for is expected more than ten times: that an untrained model never
# does it is as rare as one in ten thousand.
PLANNER = {**answers(0.9), **calls("planner"), twice("planner", 0): 1.4, call("planner", LONG): 1.0}
PLANNER |= {MALFORMED: 1.1, STRANGER: 1.3}
EXECUTOR = {**answers(), **calls("executor"), MALFORMED: 0.7}
LIMITS = {"max_turns": 3, "max_calls": 3}
SHARES = {"correct": 0.6, "protocol": 0.1, "efficiency": 0.1, "diversity": 0.1}
REWARD = PlannerReward(**SHARES, budget=Budget(calls=4))


@dataclass
class Record:
    """What was seen of the run."""

    run: str
    before: EvaluationView
    after: EvaluationView
    status: RunStatus
    steps: list[StepStatistics]
    stored: dict[str, dict[str, dict[str, Any]]]
    folder: Path
    checkpoints: dict[str, list[dict[str, Any]]]

    def of(self, role: str) -> list[StepStatistics]:
        return [step for step in self.steps if step.role == role]

    def total(self, role: str, key: str) -> float:
        return sum(step.statistics.get(key, 0.0) for step in self.of(role))


async def evaluate(servers: Trio, checkpoint: str) -> EvaluationView:
    request = EvaluationRequest(
        split="test",
        n=30,
        planner_checkpoint=checkpoint,
        executor_checkpoint=checkpoint,  # ty: ignore
    )
    path = f"/v1/evaluations/{new_id()}"
    async with http(servers.planner) as client, asyncio.timeout(60):
        await client.put(path, content=request.model_dump_json())
        while True:
            view = EvaluationView.model_validate_json((await client.get(path)).content)
            if view.state != "running":
                return view
            await asyncio.sleep(0.01)


async def walk(postgres_url: str, redis_url: str, folder: Path) -> Record:
    async with trio(postgres_url, redis_url, folder) as servers:
        executor = await servers.start_executor(EXECUTOR)
        planner = await servers.start_planner(PLANNER, limits=LIMITS)
        before = await evaluate(servers, "initial")
        await servers.declare(steps=STEPS, groups_per_step=4, rollouts_per_group=8, d_max=D_MAX, planner_reward=REWARD)
        status = await servers.finished()
        checkpoints = {}
        for role, app in (("planner", planner), ("executor", executor)):
            async with http(app) as client:
                assert (await client.post(f"/v1/checkpoints/step-{STEPS}:keep")).status_code == 204
                checkpoints[role] = (await client.get("/v1/checkpoints")).json()["items"]
        after = await evaluate(servers, "latest")
        steps = await servers.client.steps(servers.run)
    stored = {role: facts(folder / role) for role in ("planner", "executor")}
    return Record(servers.run, before, after, status, steps, stored, folder, checkpoints)


def facts(folder: Path) -> dict[str, dict[str, Any]]:
    with sqlite3.connect(folder / "trajectories.sqlite") as connection:
        rows = connection.execute("SELECT id, facts, messages FROM trajectories").fetchall()
    return {id_: json.loads(facts) | {"messages": json.loads(messages)} for id_, facts, messages in rows}


@pytest.fixture(scope="module")
def record(postgres_url: str, redis_url: str, module_folder: Path) -> Record:
    return asyncio.run(walk(postgres_url, redis_url, module_folder))


def test_every_batch_is_acked_once_and_the_run_finishes(record: Record):
    assert [(step.step, step.role) for step in record.steps] == [
        (step, role) for step in range(1, STEPS + 1) for role in ("executor", "planner")
    ]
    assert {step.outcome for step in record.steps} == {"trained"}
    for role in ("planner", "executor"):
        assert [step.updates for step in record.of(role)] == [1, 2, 3]
    assert record.status.groups == {"complete": 4 * STEPS}
    assert record.status.rollouts == {"reported": SLOTS * STEPS}


@pytest.mark.parametrize("role", ["planner", "executor"])
def test_the_weights_of_both_models_changed(record: Record, role: str):
    before = load_file(record.folder / role / "model" / "model.safetensors")
    after = load_file(record.folder / role / "checkpoints" / f"step-{STEPS}" / "model.safetensors")
    assert any((before[name] != after[name]).any() for name in before)


def test_only_ids_and_scalars_crossed(record: Record, postgres_url: str):
    with psycopg.connect(postgres_url.replace("+psycopg", "")) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        dump = "".join(
            str(row) for (table,) in tables for row in connection.execute(f'SELECT t::text FROM "{table}" t')
        )
    assert record.run in dump
    for text in ("answer>", "tool_call", "tool_response", "echo", 'delegate"', LONG):
        assert text not in dump
    sampled = [list(map(int, ids)) for ids in token_ids(record)]
    assert sampled
    assert not any(", ".join(map(str, ids)) in dump for ids in sampled)


def token_ids(record: Record) -> Iterator[list[int]]:
    with sqlite3.connect(record.folder / "planner" / "trajectories.sqlite") as connection:
        for (blob,) in connection.execute("SELECT token_ids FROM trajectories"):
            yield list(memoryview(blob).cast("i"))


def test_every_trajectory_has_a_fate_and_a_multiplicity_where_it_was_trained(record: Record):
    assert set(record.status.trajectories) <= {"trained", "dropped"}
    for role in ("planner", "executor"):
        fates = Counter()
        for step in record.of(role):
            fates.update(step.histograms["fates"])
        assert sum(fates.values()) == len(named(record, role))
        assert set(fates) <= {"trained", "dead-group", "alignment-dropped"}
    assert sum(record.status.trajectories.values()) == len(named(record, "executor"))


def named(record: Record, role: str) -> set[str]:
    if role == "planner":
        return set(record.stored["planner"])
    return {id_ for rollout in record.stored["planner"].values() for id_ in rollout["invocations"]}


def test_rollouts_without_a_call_are_masked_and_those_above_d_max_lose_rows(record: Record):
    calls = Counter()
    for step in record.of("executor"):
        calls.update({int(d): count for d, count in step.histograms["calls_per_rollout"].items()})
    assert sum(calls.values()) == SLOTS * STEPS
    assert min(calls[0], calls[1], calls[3]) > 0
    assert record.total("executor", "rows_masked") == calls[0] * D_MAX
    assert record.total("executor", "rows_dropped") == calls[3]
    assert record.total("executor", "rows_copied") == calls[1]


def test_equal_parallel_delegations_stay_two_invocations(record: Record):
    pairs = Counter()
    for trajectory in record.stored["executor"].values():
        pairs[trajectory["request"]["rollout"], trajectory["request"]["subtask"]] += 1
    twins = [key for key, count in pairs.items() if count > 1]
    assert twins
    for rollout, _ in twins:
        requests = [t["request"] for t in record.stored["executor"].values() if t["request"]["rollout"] == rollout]
        assert sorted(request["index"] for request in requests) == list(range(len(requests)))


@pytest.mark.parametrize("reason", ["malformed-call", "limit-ignored"])
def test_broken_and_limited_rollouts_are_trained_like_any_other(record: Record, reason: str):
    assert any(facts["reason"] == reason for facts in record.stored["planner"].values())


@pytest.mark.parametrize("role", ["planner", "executor"])
def test_every_report_was_acknowledged(record: Record, module_folder: Path, role: str):
    assert record.stored[role]
    with sqlite3.connect(module_folder / role / "trajectories.sqlite") as connection:
        assert connection.execute("SELECT (SELECT count(*) FROM spool), (SELECT count(*) FROM refused)").fetchone() == (
            0,
            0,
        )


def test_an_unknown_tool_is_an_error_that_the_planner_sees(record: Record):
    shown = [m["content"] for facts in record.stored["planner"].values() for m in facts["messages"]]
    assert any('state="error"' in text and "fly" in text for text in shown)


@pytest.mark.parametrize("term", TERMS)
def test_the_scores_of_the_reward_terms_are_what_the_rollouts_did(record: Record, postgres_url: str, term: str):
    with psycopg.connect(postgres_url.replace("+psycopg", "")) as connection:
        rows = connection.execute(
            f"SELECT CAST(planner_trajectory AS text), r_{term} FROM rollouts WHERE run = %s".encode(), (record.run,)
        ).fetchall()
    assert len(rows) == SLOTS * STEPS
    assert dict(rows) == {id_: scores(record, facts)[term] for id_, facts in record.stored["planner"].items()}
    assert {0 < score < 1 for _, score in rows} == {True, False}


def scores(record: Record, facts: dict[str, Any]) -> dict[str, float]:
    """The score of each term, from what the two servers stored as text."""
    shown = [message["content"] for message in facts["messages"] if message["role"] == "tool"]
    done = [record.stored["executor"][id_] for id_ in facts["invocations"]]
    subtasks = [each["request"]["subtask"] for each in done if each["answer"]["status"] == "ok"]
    *turns, _ = [message["content"] for message in facts["messages"] if message["role"] == "assistant"]
    refused = "".join(turns).count(STRANGER)  # one that a limit kept from running, too
    return {
        "protocol": 1 - refused / len(shown) if shown else 1.0,
        "efficiency": 1 - min(1, len(shown) / 4),
        "diversity": len(set(subtasks)) / len(subtasks) if subtasks else 1.0,
    }


@pytest.mark.parametrize("role", ["planner", "executor"])
def test_the_reward_formulas_are_kept_beside_the_weights(record: Record, role: str):
    kept = json.loads((record.folder / role / "reward.json").read_text())
    assert kept == formulas(RunSpec(steps=STEPS, planner_reward=REWARD))


def test_staleness_stays_within_the_bound(record: Record):
    for role in ("planner", "executor"):
        assert all(int(age) <= 1 for step in record.of(role) for age in step.histograms["staleness"])


def test_every_step_has_its_statistics(record: Record):
    common = {"reward_mean", "reward_deviation", "reward_variance_within", "reward_variance_between", "groups"}
    common |= {"groups_dead", "gap_mean", "gap_max", "clip_fraction", "kl", "tokens_per_second", "staleness_mean"}
    common |= {"staleness_max", "unique_action_rate", "rows_distinct", "format_mean"}
    executor = {"rows_copied", "rows_dropped", "rows_masked", "effective_sample_size", "expert_mean"}
    for step in record.steps:
        assert common <= set(step.statistics), common - set(step.statistics)
        assert step.role == "planner" or executor <= set(step.statistics)
    assert record.of("planner")[0].statistics["gap_max"] < 1e-3


@pytest.mark.parametrize("when", ["before", "after"])
def test_evaluations_run_before_the_run_is_declared_and_after_it_is_finished(record: Record, when: str):
    view: EvaluationView = getattr(record, when)
    assert (view.state, view.done, len(view.correct), len(view.calls)) == ("done", 30, 30, 30)
    assert view.accuracy == pytest.approx(sum(view.correct) / 30)
    assert set(view.by_kind) == {"even", "odd"}
    assert view.executor_format_rate is not None
    assert not set(record.stored["planner"]) & {view.id}


def test_checkpoints_are_listed_and_the_best_is_kept(record: Record):
    for items in record.checkpoints.values():
        assert [(item["name"], item["updates"], item["kept"]) for item in items] == [(f"step-{STEPS}", STEPS, True)]


def audits(url: str, run: str) -> list[Audit]:
    """Of every group; the statistics of each step once."""
    with Server(url, None, "the sync service") as server:
        groups = list(server.items(f"/v1/runs/{run}/groups", GroupView))
        return [audit(read(server, group.group, whole_step=group.index == 0)) for group in groups]


async def test_every_group_is_what_is_computed_again_from_the_record(record: Record, postgres_url: str, tmp_path: Path):
    app = create_app(SyncConfig(auth="loopback", database_url=postgres_url, disk_folder=tmp_path))
    async with LifespanManager(app), listening(app) as url:
        found = await asyncio.to_thread(audits, url, record.run)
    assert [len(one.parts) for one in found] == [2] * 4 * STEPS
    assert [one.differences for one in found] == [[]] * 4 * STEPS
    assert [one.notes for one in found[::4]] == [[]] * STEPS
