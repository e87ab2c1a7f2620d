"""The judge: at the end, compares what was acknowledged with what the database and the surviving weights hold."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from shared.schemas import ROLES
from tests.faults import invariants, ledger, unfinished
from tests.faults.weights import surviving


@dataclass
class Verdict:
    """What was found; all but `acked` must be 0."""

    acked: int = 0
    lost: int = 0
    double_consumed: int = 0
    stale_acks_accepted: int = 0
    stuck: int = 0
    inconsistent: int = 0
    findings: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Nothing was lost, taken twice, taken from a zombie, or left waiting, and the tables agree."""
        return not self.findings

    def add(self, kind: str, findings: Iterable[str]) -> None:
        """Count findings of one kind."""
        found = list(findings)
        setattr(self, kind, getattr(self, kind) + len(found))
        self.findings += [f"{kind}: {finding}" for finding in found]


def judge(folder: Path, conninfo: str, runs: list[str]) -> Verdict:
    """Read every ledger and all weights in `folder`, and the database; no client may be running."""
    entries = list(ledger.read(folder))
    verdict = Verdict(acked=sum(entry["write"] != "zombie" for entry in entries))
    with psycopg.connect(conninfo, row_factory=dict_row, autocommit=True) as database:
        verdict.add("lost", _lost(database, entries))
        verdict.add("stale_acks_accepted", stale_acks(entries))
        verdict.add("stuck", unfinished.all_of(database, runs))
        verdict.add("inconsistent", invariants.broken(database))
        for run in runs:
            for role in ROLES:
                trained = surviving(folder / f"{run}-{role}")
                verdict.add("double_consumed", _twice(trained, f"{run} {role}"))
                verdict.add("lost", _untrained(database, trained, run, role))
    return verdict


def _lost(database: psycopg.Connection, entries: list[dict[str, Any]]) -> Iterable[str]:
    """Acknowledged writes that are not there, or not as they were acknowledged."""
    for kind, (statement, same) in STORED.items():
        rows = {str(row["key"]): row for row in database.execute(statement.encode())}
        for entry in entries:
            if entry["write"] == kind:
                row = rows.get(_key(entry))
                if row is None or not same(row, entry):
                    yield f"{kind} {_key(entry)}: acknowledged {entry}, stored {row}"


def _key(entry: dict[str, Any]) -> str:
    return entry.get("id") or "/".join(str(entry[part]) for part in KEYS[entry["write"]])


KEYS = {"ack": ("run", "role", "step"), "version": ("run", "role", "epoch", "step")}


def _same_group(row: dict, entry: dict) -> bool:
    return all(row[name] == entry["body"][name] for name in ("run", "step", "index", "task_id"))


def _same_rollout(row: dict, entry: dict) -> bool:
    body = entry["body"]
    state = body["status"] if entry["accepted"] else "late"
    named = [str(id) for id in row["executor_trajectories"]]
    return (row["state"], row["slot"], row["r_correct"], str(row["group_id"]), named) == (
        state,
        body["slot"],
        body["r_correct"],
        body["group"],
        body["executor_trajectories"],
    )


def _same_trajectory(row: dict, entry: dict) -> bool:
    body = entry["body"]
    return (row["accepted"], row["r_expert"], str(row["rollout_id"]), row["unscored_reason"]) == (
        entry["accepted"],
        body["r_expert"],
        body["rollout"],
        body["reason"],
    )


def _same_ack(row: dict, entry: dict) -> bool:
    """A later resume may have taken it back; then a later epoch has acked the step again."""
    return row["state"] == "acked" and row["epoch"] >= entry["epoch"]


def _same_version(row: dict, entry: dict) -> bool:
    return row["checksum"] == entry["checksum"] and row["confirmed_at"] is not None


STORED = {
    "group": ("SELECT id AS key, run, step, index, task_id FROM groups", _same_group),
    "rollout": (
        "SELECT id AS key, state, slot, r_correct, group_id, executor_trajectories FROM rollouts",
        _same_rollout,
    ),
    "trajectory": (
        "SELECT id AS key, accepted, r_expert, rollout_id, unscored_reason FROM trajectories WHERE digest IS NOT NULL",
        _same_trajectory,
    ),
    "ack": ("SELECT concat_ws('/', run, role, step) AS key, state, epoch FROM deliveries", _same_ack),
    "version": (
        "SELECT concat_ws('/', run, role, epoch, step) AS key, checksum, confirmed_at FROM policies",
        _same_version,
    ),
}


def stale_acks(entries: list[dict[str, Any]]) -> Iterable[str]:
    """Acks that were accepted though a newer epoch had been granted before they were sent."""
    granted: dict[tuple, list[tuple[int, float]]] = {}
    for entry in entries:
        if entry["write"] == "resume":
            granted.setdefault((entry["run"], entry["role"]), []).append((entry["epoch"], entry["at"]))
    for entry in entries:
        if entry["write"] == "zombie" and entry["accepted"]:
            yield f"epoch {entry['epoch']} acked step {entry['step']} after its end"
        if entry["write"] == "ack":
            resumes = granted.get((entry["run"], entry["role"]), [])
            if any(epoch > entry["epoch"] and at < entry["sent"] for epoch, at in resumes):
                yield f"{entry}"


def _twice(trained: list[tuple[int, dict[str, int]]], whose: str) -> Iterable[str]:
    """Steps and rows that the surviving weights contain more than once."""
    for step, times in Counter(step for step, _ in trained).items():
        if times > 1:
            yield f"{whose}: step {step} is in the weights {times} times"
    for id, times in Counter(id for _, rows in trained for id in rows).items():
        if times > 1:
            yield f"{whose}: trajectory {id} is in the weights {times} times"


FATES = {
    "planner": """
        SELECT g.step, r.planner_trajectory AS id, r.multiplicity FROM rollouts r JOIN groups g ON g.id = r.group_id
        WHERE g.run = %s AND r.multiplicity IS NOT NULL""",
    "executor": """
        SELECT batch_step AS step, id, multiplicity FROM trajectories WHERE run = %s AND multiplicity IS NOT NULL""",
}


def _untrained(
    database: psycopg.Connection, trained: list[tuple[int, dict[str, int]]], run: str, role: str
) -> Iterable[str]:
    """Steps whose rows, as the database has them, are not those in the surviving weights."""
    recorded: dict[int, dict[str, int]] = {
        row["step"]: {}
        for row in database.execute("SELECT step FROM deliveries WHERE run = %s AND role = %s", (run, role))
    }
    for row in database.execute(FATES[role].encode(), (run,)):
        recorded[row["step"]][str(row["id"])] = row["multiplicity"]
    held = dict(trained)
    for step in sorted(recorded.keys() | held.keys()):
        if recorded.get(step) != held.get(step):
            yield f"{run} {role} step {step}: the weights hold {held.get(step)}, the database {recorded.get(step)}"
