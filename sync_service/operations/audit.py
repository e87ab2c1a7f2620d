"""The audit: every write of an operator, in the transaction of what it changed. A repeated call changes nothing."""

from typing import Literal

from sqlalchemy.ext.asyncio import AsyncConnection

from sync_service import store

Action = Literal[
    "run-declare",
    "run-pause",
    "run-resume",
    "run-drain",
    "run-fail",
    "run-purge",
    "group-discard",
    "delivery-requeue",
    "delivery-skip",
    "key-add",
    "key-revoke",
]


async def record(
    connection: AsyncConnection, by: str | None, action: Action, target: str, run: str | None, **details: int | str
) -> None:
    """Key `by` (None: the loopback mode, or the service itself) did this to `target`. No secret, no text."""
    await store.audit.insert(connection, key=by, action=action, target=target, run=run, details=details)
