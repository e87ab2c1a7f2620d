"""The pool, and transactions that are tried again where Postgres asks for it.

Every call is idempotent by id, so a transaction whose commit may or may not have happened is safe to repeat.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import structlog
from psycopg.types.string import TextLoader
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from shared.errors import Overloaded, StorageFull, Unavailable

T = TypeVar("T")
log = structlog.get_logger()

ATTEMPTS = 6
POOL_WAIT_S = 10.0
STATEMENT_MS = 30_000
SETTINGS = {
    "statement_timeout": STATEMENT_MS,
    "idle_in_transaction_session_timeout": STATEMENT_MS,
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
}
"""Of each connection. Every statement takes few rows by their keys, from tables that only grow. The planner guesses how
many rows a JSON parameter has, and its statistics are behind a table that grows fast; where it guesses wrong, it reads
the whole table, and keeps that plan. So it is told to go by the indexes."""
_AGAIN = frozenset({"40001", "40P01", "23505", "23503"})
"""Serialisation failure, deadlock, and a key that another transaction took or purged: it is seen next time."""
_PASSING = ("08", "53", "57")
"""The classes of lost connections, of insufficient resources, and of interventions (shutdown, statement timeout)."""
_DISK_FULL = "53100"


class Again(Exception):
    """What this transaction read is no longer so: run it again from its start."""


class Database:
    """One engine. `transaction` is one request's transaction; `read` is for statements that need none."""

    def __init__(self, url: str, pool_size: int = 10) -> None:
        options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
        self.engine = create_async_engine(
            url,
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=POOL_WAIT_S,
            connect_args={"options": options, "connect_timeout": 5, "application_name": "tandem-sync"},
        )
        event.listen(self.engine.sync_engine, "connect", _uuids_as_text)
        self._autocommit = self.engine.execution_options(isolation_level="AUTOCOMMIT")

    @property
    def in_use(self) -> int:
        """Connections that somebody holds now."""
        return self.engine.pool.checkedout()  # ty: ignore[missing-attribute]

    async def close(self) -> None:
        """Close every connection."""
        await self.engine.dispose()

    async def transaction(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """`work` in one READ COMMITTED transaction, committed when this returns."""

        async def once() -> T:
            async with self.engine.begin() as connection:
                return await work(connection)

        return await _persist(once)

    async def read(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """`work` with each statement by itself."""

        async def once() -> T:
            async with self._autocommit.connect() as connection:
                return await work(connection)

        return await _persist(once)


def _uuids_as_text(connection: Any, _: object) -> None:
    """Ids are strings everywhere outside the database."""
    connection.driver_connection.adapters.register_loader("uuid", TextLoader)


async def _persist(once: Callable[[], Awaitable[T]]) -> T:
    for attempt in range(ATTEMPTS):
        try:
            return await once()
        except Again:
            fault = "the same rows are changed by too many requests at once"
        except PoolTimeout:
            raise Overloaded("every database connection is busy") from None
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) == _DISK_FULL:
                raise StorageFull() from None
            if not _passes(error):
                raise
            fault = f"the database does not answer as it should: {type(error.orig).__name__}"
        await asyncio.sleep(random.uniform(0, 0.01) * 2**attempt)
    raise Unavailable(fault)


def _passes(error: DBAPIError) -> bool:
    """Lost connections, collisions and want of resources pass; a statement that is wrong stays wrong."""
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return isinstance(error, OperationalError | InterfaceError)
    return error.connection_invalidated or state in _AGAIN or state.startswith(_PASSING)
