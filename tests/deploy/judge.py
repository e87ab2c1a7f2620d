"""At the end: whether the database, the last checkpoints and the stores say the same, and that nothing is left."""

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg.rows import dict_row
from safetensors import safe_open

from shared.policy.checkpoints import Checkpoint, CheckpointStore
from shared.policy.folder import OPTIMIZER_FILE
from shared.schemas import ROLES, Role
from tests.faults import invariants, unfinished


@dataclass
class Verdict:
    """What was found, one line each; all three must be empty."""

    lost: list[str] = field(default_factory=list)
    trained_twice: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)

    @property
    def findings(self) -> list[str]:
        """All of it."""
        return [*self.lost, *self.trained_twice, *self.unfinished]


def judge(conninfo: str, run: str, data: dict[Role, Path]) -> Verdict:
    """Read the database and each role's folder; no server may be running."""
    verdict = Verdict()
    with psycopg.connect(conninfo, row_factory=dict_row, autocommit=True) as database:
        verdict.unfinished += [*unfinished.all_of(database, [run]), *invariants.broken(database)]
        for role in ROLES:
            _judge_weights(verdict, database, run, role, data[role])
            verdict.lost += _unsent(data[role], role)
            verdict.lost += _not_stored(database, run, role, data[role])
    return verdict


DELIVERIES = "SELECT step, outcome, updates FROM deliveries WHERE run = %s AND role = %s ORDER BY step"
PUBLISHED = """
SELECT checksum FROM policies
WHERE run = %s AND role = %s AND step = %s AND NOT superseded AND confirmed_at IS NOT NULL"""


def _judge_weights(verdict: Verdict, database: psycopg.Connection, run: str, role: Role, data: Path) -> None:
    """Each acked step is one optimiser step of the surviving weights, or none where it was skipped."""
    updates, step = 0, 0
    for row in database.execute(DELIVERIES, (run, role)):
        step += 1
        if row["step"] != step:
            verdict.lost.append(f"{role}: no step {step} was delivered")
            return
        trained = row["outcome"] == "trained"
        where = f"{role} step {step}: {row['updates'] - updates} optimiser steps for a step that was {row['outcome']}"
        if row["updates"] - updates != trained:
            (verdict.lost if row["updates"] - updates < trained else verdict.trained_twice).append(where)
        updates = row["updates"]
    last = _last(data, run, role)
    held = _optimizer_steps(last.path / OPTIMIZER_FILE)
    for name, found, said in (("step", last.step, step), ("updates", last.updates, updates), ("AdamW", held, updates)):
        if found != said:
            kind = verdict.lost if found < said else verdict.trained_twice
            kind.append(f"{role}: the last checkpoint has {name} {found}, the database {said}")
    published = {row["checksum"] for row in database.execute(PUBLISHED, (run, role, step))}
    if published - {last.checksum}:
        verdict.lost.append(f"{role}: the samplers loaded other weights of step {step} than the checkpoint's")


def _last(data: Path, run: str, role: Role) -> Checkpoint:
    last = CheckpointStore(data / "checkpoints", data.parent / "models" / role, run, role, keep_last=2).latest()
    assert last is not None, f"the {role} has no checkpoint"
    return last


def _optimizer_steps(file: Path) -> int:
    """How often AdamW stepped, by its own count: it is part of the state that the weights were trained with."""
    with safe_open(file, "pt") as tensors:
        counts = {int(tensors.get_tensor(key)) for key in tensors.keys() if key.startswith("step.")}  # noqa: SIM118
    (steps,) = counts
    return steps


def _unsent(data: Path, role: Role) -> Iterable[str]:
    """Reports that still wait, or that the service refused for good."""
    with sqlite3.connect(data / "trajectories.sqlite") as store:
        for (id,) in store.execute("SELECT id FROM spool"):
            yield f"{role}: report {id} was never acknowledged"
        for id, problem in store.execute("SELECT id, problem FROM refused"):
            yield f"{role}: report {id} was refused: {json.loads(problem).get('detail')}"


REPORTED = {
    "planner": "SELECT planner_trajectory AS id FROM rollouts WHERE run = %s AND planner_trajectory IS NOT NULL",
    "executor": "SELECT id FROM trajectories WHERE run = %s AND digest IS NOT NULL",
}


def _not_stored(database: psycopg.Connection, run: str, role: Role, data: Path) -> Iterable[str]:
    """What was reported, and is not in the store: the disk bound is far away."""
    with sqlite3.connect(data / "trajectories.sqlite") as store:
        stored = {id for (id,) in store.execute("SELECT id FROM trajectories")}
    for row in database.execute(REPORTED[role].encode(), (run,)):
        if str(row["id"]) not in stored:
            yield f"{role}: trajectory {row['id']} was reported, and is in no store"
