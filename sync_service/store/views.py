"""Rows as the wire shows them."""

from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel
from sqlalchemy import Row

M = TypeVar("M", bound=BaseModel)
_VERSION = ("epoch", "step", "updates")


def version(row: Row) -> dict[str, int] | None:
    """The policy version in a row's three columns."""
    found = {part: getattr(row, f"version_{part}") for part in _VERSION}
    return None if found["epoch"] is None else found


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
