"""What happened, as events: noted by whoever makes it happen, in the same transaction."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.schemas.events import EventKind
from sync_service import store

Note = dict[str, Any]
"""A row of the outbox that is to be."""


def note(run: str, kind: EventKind, **body: int | str | None) -> Note:
    """An event; `body` holds ids, numbers and codes only, and not what is unknown."""
    return {"run": run, "kind": kind, "body": {name: value for name, value in body.items() if value is not None}}


def about(delivery: Row, kind: EventKind, **body: int | str | None) -> Note:
    """An event of one delivery."""
    return note(delivery.run, kind, delivery=delivery.id, role=delivery.role, step=delivery.step, **body)


async def emit(connection: AsyncConnection, notes: Iterable[Note]) -> None:
    """Write them in one statement; nothing where there are none."""
    if rows := list(notes):
        await store.events.insert(connection, rows)
