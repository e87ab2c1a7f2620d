"""The audit: what operators changed, and by which key."""

import json
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.schemas.views import AuditRow
from sync_service.store.views import view

_INSERT = text("""
INSERT INTO audit (key, action, target, run, details) VALUES (:key, :action, :target, :run, CAST(:details AS jsonb))
""")


async def insert(
    connection: AsyncConnection, *, key: str | None, action: str, target: str, run: str | None, details: dict[str, Any]
) -> None:
    """Write one row; nothing ever changes or deletes it."""
    found = {"key": key, "action": action, "target": target, "run": run, "details": json.dumps(details)}
    await connection.execute(_INSERT, found)


_PAGE = text("""
SELECT id, at, key, action, target, run, details FROM audit
WHERE id < :before AND (CAST(:run AS text) IS NULL OR run = :run) ORDER BY id DESC LIMIT :limit
""")


async def page(connection: AsyncConnection, run: str | None, before: int, limit: int) -> list[AuditRow]:
    """Rows below an id, of one run if it is given, the newest first."""
    rows = await connection.execute(_PAGE, {"run": run, "before": before, "limit": limit})
    return [view(AuditRow, row) for row in rows]
