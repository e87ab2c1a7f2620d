"""Statements of the hot path, on the driver's own connection: SQLAlchemy costs about as much as they do themselves.

They are part of the connection's transaction like any other, and the driver prepares them once they are frequent.
"""

import re
from collections.abc import Mapping
from typing import Any

from psycopg import AsyncCursor, Error
from psycopg.rows import namedtuple_row
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

_PARAMETER = re.compile(r"(?<!:):(\w+)")


class Statement:
    """SQL with `:name` for each parameter, as in `text`, and with errors of the same classes."""

    def __init__(self, sql: str) -> None:
        self._query = _PARAMETER.sub(r"%(\1)s", sql.replace("%", "%%")).encode()

    async def rows(self, connection: AsyncConnection, values: Mapping[str, Any]) -> list[Any]:
        """All rows, with a name for each column."""
        return await (await self._run(connection, values)).fetchall()

    async def row(self, connection: AsyncConnection, values: Mapping[str, Any]) -> Any | None:
        """The only row, if there is one."""
        return await (await self._run(connection, values)).fetchone()

    async def count(self, connection: AsyncConnection, values: Mapping[str, Any]) -> int:
        """How many rows it wrote."""
        return (await self._run(connection, values)).rowcount

    async def _run(self, connection: AsyncConnection, values: Mapping[str, Any]) -> AsyncCursor[Any]:
        if not connection.in_transaction():
            await connection.begin()  # as SQLAlchemy's own execute does: else its commit has nothing to commit
        assert connection.sync_connection is not None
        driver: Any = connection.sync_connection.connection.driver_connection
        cursor = driver.cursor(row_factory=namedtuple_row)
        try:
            return await cursor.execute(self._query, values)
        except Error as error:
            raise DBAPIError.instance(
                self._query.decode(), None, error, Error, hide_parameters=True, connection_invalidated=driver.closed
            ) from error
