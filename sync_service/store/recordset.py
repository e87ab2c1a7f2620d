"""Many rows as one parameter, so that a statement is the same text, prepared once, for any number of rows.

Both forms are one text. Postgres takes it apart for less than the driver takes to put arrays together.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import to_json


def recordset(rows: Iterable[Mapping[str, Any]]) -> str:
    """`rows` for json_to_recordset."""
    return to_json(list(rows)).decode()


def uuids(ids: Iterable[str]) -> str:
    """`ids`, which are valid ones, for CAST(... AS uuid[])."""
    return f"{{{','.join(ids)}}}"
