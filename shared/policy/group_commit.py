"""One thread writes: everything that waits goes into one transaction, so an fsync is paid once for many callers."""

import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from shared.errors import Unavailable

T = TypeVar("T")
Operation = tuple[Callable[[sqlite3.Connection], Any], Future]
MAX_OPERATIONS = 1024
CLOSE_S = 30.0


class GroupCommit:
    """Consumes operations from a queue; each is durable when its future is done, and fails alone where it raises.

    Of an operation that raises nothing is written. A fault of SQLite itself (a full disk) rolls the whole transaction
    back, and everything in it fails with Unavailable: nothing is half done.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._queue: queue.SimpleQueue[Operation | None] = queue.SimpleQueue()
        self._open = True
        self._thread = threading.Thread(target=self._run, name="trajectory-writer", daemon=True)
        self._thread.start()

    def submit(self, operation: Callable[[sqlite3.Connection], T]) -> "Future[T]":
        """Queue one operation; its result is there once the transaction that holds it is on disk."""
        if not self._open:
            raise Unavailable("the trajectory store is closed")
        future: Future[T] = Future()
        self._queue.put((operation, future))
        return future

    def close(self) -> None:
        """Write what is queued, then end the thread."""
        self._open = False
        self._queue.put(None)
        self._thread.join(CLOSE_S)
        self._connection.close()

    def _run(self) -> None:
        stopping = False
        while not stopping:
            batch: list[Operation] = []
            for operation in [self._queue.get(), *self._waiting()]:
                if operation is None:
                    stopping = True
                elif operation[1].set_running_or_notify_cancel():  # else its caller has gone, and it is left out
                    batch.append(operation)
            if batch:
                self._commit(batch)

    def _waiting(self) -> list[Operation | None]:
        taken: list[Operation | None] = []
        while len(taken) < MAX_OPERATIONS:
            try:
                taken.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return taken

    def _commit(self, batch: list[Operation]) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            outcomes = [self._attempt(operation) for operation, _ in batch]
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            fault = Unavailable(f"the trajectory store {self._path} cannot write: {error}; nothing was lost, try again")
            outcomes = [(None, fault)] * len(batch)
        for (_, future), (result, fault) in zip(batch, outcomes, strict=True):
            future.set_exception(fault) if fault else future.set_result(result)

    def _attempt(self, operation: Callable[[sqlite3.Connection], Any]) -> tuple[Any, Exception | None]:
        self._connection.execute("SAVEPOINT operation")
        try:
            outcome = operation(self._connection), None
        except sqlite3.Error:
            raise
        except Exception as fault:  # noqa: BLE001 it belongs to the caller, who gets it from the future
            self._connection.execute("ROLLBACK TO operation")
            outcome = None, fault
        self._connection.execute("RELEASE operation")
        return outcome
