"""A trajectory as one SQLite row: ids as int32, mask as uint8, log-probs as float32; the rest is readable JSON."""

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from shared.errors import InvalidInput, UserError
from shared.policy.types import Trajectory
from shared.schemas.base import PolicyVersion

SCHEMA_VERSION = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS trajectories (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
    run TEXT NOT NULL, role TEXT NOT NULL, epoch INTEGER NOT NULL, step INTEGER NOT NULL, updates INTEGER NOT NULL,
    token_ids BLOB NOT NULL, mask BLOB NOT NULL, logprobs BLOB NOT NULL,
    messages TEXT NOT NULL, facts TEXT NOT NULL, purgeable INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS purgeable ON trajectories (seq) WHERE purgeable = 1;
"""
COLUMNS = "id, run, role, epoch, step, updates, token_ids, mask, logprobs, messages, facts"
BUSY_S = 30.0

Record = tuple[str, str, str, int, int, int, bytes, bytes, bytes, str, str]
"""The values of COLUMNS, in order."""


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """Open the store's file; UserError where it is not one. Only the owning server writes."""
    try:
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?mode={'rwc' if write else 'ro'}",
            uri=True,
            timeout=BUSY_S,
            isolation_level=None,
            check_same_thread=False,
        )
        version = connection.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.DatabaseError as error:
        raise UserError(f"{path} is not a trajectory store: {error}") from None
    if version not in (0, SCHEMA_VERSION):
        raise UserError(f"{path} is a trajectory store of format {version}; this version reads {SCHEMA_VERSION}")
    return connection


def prepare(connection: sqlite3.Connection) -> None:
    """Make the table; what is committed survives a crash of the process and of the machine."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.executescript(SCHEMA)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def pack(trajectory: Trajectory) -> Record:
    """The row to store; InvalidInput names the trajectory whose parts do not fit together."""
    t = trajectory
    if not len(t.token_ids) == len(t.mask) == len(t.logprobs) or not t.token_ids:
        raise InvalidInput(f"trajectory {t.id}: ids, mask and log-probs must have one length, above 0")
    logprobs = np.asarray(t.logprobs, dtype="<f4")
    if not set(t.mask) <= {0, 1} or not np.isfinite(logprobs).all():
        raise InvalidInput(f"trajectory {t.id}: the mask is 0 or 1, and log-probs are finite")
    return (
        *(t.id, t.run, t.role, t.version.epoch, t.version.step, t.version.updates),
        *(np.asarray(t.token_ids, dtype="<i4").tobytes(), bytes(t.mask), logprobs.tobytes()),
        *(dumps(t.messages), dumps(t.facts)),
    )


def unpack(record: Record) -> Trajectory:
    """The trajectory of a stored row, exactly as it was put (log-probs to float32)."""
    id_, run, role, epoch, step, updates, token_ids, mask, logprobs, messages, facts = record
    return Trajectory(
        id=id_,
        run=run,
        role="planner" if role == "planner" else "executor",
        token_ids=np.frombuffer(token_ids, dtype="<i4").tolist(),
        mask=list(mask),
        logprobs=np.frombuffer(logprobs, dtype="<f4").tolist(),
        version=PolicyVersion(epoch=epoch, step=step, updates=updates),
        messages=json.loads(messages),
        facts=json.loads(facts),
    )


def read(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, Trajectory]:
    """The stored trajectories among `ids`; the caller names those that are missing."""
    statement = f"SELECT {COLUMNS} FROM trajectories WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608 constants
    return {record[0]: unpack(record) for record in connection.execute(statement, (json.dumps(list(ids)),))}


def dumps(value: Any) -> str:
    """JSON without NaN, in ASCII: a lone surrogate, which a model may well write, has no UTF-8 form."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))
