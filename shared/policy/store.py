"""The trajectory store: one SQLite file, owned by one server; tokens never leave it.

A `put` that has returned survives a crash. Rows stay until they are released (a checkpoint contains their batch) and
then pushed out, oldest first, by the disk bound. What is not released is never dropped to make room.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from shared.errors import BodyConflict, NotFound, Overloaded
from shared.policy.group_commit import GroupCommit
from shared.policy.records import COLUMNS, Record, connect, dumps, pack, prepare, read
from shared.policy.types import Trajectory
from shared.schemas.invocation import PARTS

T = TypeVar("T")
Write = Callable[[sqlite3.Connection], Any]
PURGE_ROWS = 64
ROW_OVERHEAD = 512
"""Bytes of index, header and page slack that a row costs beside its values."""


class TrajectoryStore:
    """`max_bytes` bounds the file's used pages; the write-ahead log beside it stays within a few MiB."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._max_bytes = max_bytes
        connection = connect(path, write=True)
        prepare(connection)
        self.writer = GroupCommit(connection, path)
        """Writes to the file: the spool's reports too."""
        self._reading = connect(path, write=False)
        self._reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="trajectory-reader")

    async def put(self, trajectory: Trajectory, also: Write | None = None, parts: Sequence[Trajectory] = ()) -> None:
        """Store it; durable on return. The same again is fine, another body under its id is BodyConflict.

        `also`, and the trajectories that it names as its `parts`, are written in the same transaction. Overloaded: the
        bound is reached and nothing is released. A cancelled put may have been stored.
        """
        records = [pack(each) for each in (trajectory, *parts)]

        def insert(connection: sqlite3.Connection) -> None:
            for record in records:
                _insert(connection, record, self._max_bytes)
            if also is not None:
                also(connection)

        await self._write(insert)

    async def get(self, ids: Iterable[str]) -> dict[str, Trajectory]:
        """The stored ones among `ids`."""
        wanted = list(ids)
        return await self._read(lambda connection: read(connection, wanted))

    async def get_whole(self, ids: Iterable[str]) -> dict[str, Trajectory]:
        """The stored ones among `ids`, and their parts."""
        found = await self.get(ids)
        parts = [part for trajectory in found.values() for part in trajectory.parts]
        return found | await self.get(parts) if parts else found

    async def set_facts(self, id_: str, facts: dict[str, Any], also: Write | None = None) -> None:
        """Replace the facts of a trajectory; durable on return. `also` is written in the same transaction."""
        text = dumps(facts)

        def update(connection: sqlite3.Connection) -> None:
            if not connection.execute(SET_FACTS, (text, id_)).rowcount:
                raise NotFound(f"there is no trajectory {id_} in this store")
            if also is not None:
                also(connection)

        await self._write(update)

    async def unreleased(self, run: str) -> list[Trajectory]:
        """What no checkpoint contains yet, in the order of its storing: a restarted server goes on from it."""
        statement = "SELECT id FROM trajectories WHERE run = ? AND purgeable = 0 ORDER BY seq"
        ids = await self._read(lambda connection: [row[0] for row in connection.execute(statement, (run,))])
        found = await self.get(ids)
        return [found[id_] for id_ in ids if id_ in found]

    async def release(self, ids: Iterable[str]) -> None:
        """A checkpoint contains these and their parts: they may be read until the disk bound needs their room."""
        listed = dumps(list(ids))
        await self._write(lambda connection: connection.execute(RELEASE, (listed,)).rowcount)

    async def release_before(self, run: str, updates: int) -> None:
        """No batch will train on what fewer than `updates` optimiser steps are behind: it is too stale for all."""
        statement = "UPDATE trajectories SET purgeable = 1 WHERE run = ? AND purgeable = 0 AND updates < ?"
        await self._write(lambda connection: connection.execute(statement, (run, updates)).rowcount)

    def close(self) -> None:
        """Write what waits, then close; blocks for a commit at most."""
        self.writer.close()
        self._reader.shutdown(wait=True)
        self._reading.close()

    async def _write(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.wrap_future(self.writer.submit(operation))

    async def _read(self, query: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reader, query, self._reading)


RELEASE = f"""UPDATE trajectories SET purgeable = 1 WHERE id IN (SELECT value FROM json_each(?1)) OR id IN
    (SELECT part.value FROM trajectories AS whole, json_each(whole.facts, '$.{PARTS}') AS part
     WHERE whole.id IN (SELECT value FROM json_each(?1)))"""  # noqa: S608 a constant
SET_FACTS = "UPDATE trajectories SET facts = ? WHERE id = ?"
SELECT_ONE = f"SELECT {COLUMNS} FROM trajectories WHERE id = ?"  # noqa: S608 constants
INSERT = f"INSERT INTO trajectories ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 constants
PURGE_OLDEST = """DELETE FROM trajectories WHERE seq IN
    (SELECT seq FROM trajectories WHERE purgeable = 1 ORDER BY seq LIMIT ?)"""


def _insert(connection: sqlite3.Connection, record: Record, max_bytes: int) -> None:
    stored = connection.execute(SELECT_ONE, (record[0],)).fetchone()
    if stored is None:
        _make_room(connection, record, max_bytes)
        connection.execute(INSERT, record)
    elif stored[:-1] != record[:-1]:  # facts, the last column, may have been set since
        raise BodyConflict(f"another trajectory is already stored under {record[0]}")


def _make_room(connection: sqlite3.Connection, record: Record, max_bytes: int) -> None:
    needed = sum(len(value) for value in record[6:]) + ROW_OVERHEAD
    while _used_bytes(connection) + needed > max_bytes:
        if not connection.execute(PURGE_OLDEST, (PURGE_ROWS,)).rowcount:
            raise Overloaded(
                f"the trajectory store is full ({max_bytes} bytes), and no checkpoint contains what it holds: "
                "raise policy.store.max_bytes, or lower policy.checkpoints.every"
            )


def _used_bytes(connection: sqlite3.Connection) -> int:
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size
