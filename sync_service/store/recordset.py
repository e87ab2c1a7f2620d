"""Many rows as one parameter, so that a statement is the same text, prepared once, for any number of rows."""

import json
from collections.abc import Iterable, Mapping
from typing import Any


def recordset(rows: Iterable[Mapping[str, Any]]) -> str:
    """`rows` for json_to_recordset."""
    return json.dumps(list(rows))
