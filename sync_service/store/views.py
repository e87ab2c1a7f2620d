"""Rows as the wire shows them."""

from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel
from sqlalchemy import Row

M = TypeVar("M", bound=BaseModel)


def version(row: Row) -> dict[str, int] | None:
    """The policy version in a row's three columns."""
    if row.version_epoch is None:
        return None
    return {"epoch": row.version_epoch, "step": row.version_step, "updates": row.version_updates}


def view(model: type[M], row: Row) -> M:
    """The row as a `model`: its version columns as one field, times as ISO text, arrays as tuples."""
    fields: dict[str, Any] = {k: _plain(v) for k, v in row._mapping.items() if not k.startswith("version_")}
    if "version_epoch" in row._mapping:
        fields["version"] = version(row)
    return model.model_validate(fields)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return tuple(value) if isinstance(value, list) else value
