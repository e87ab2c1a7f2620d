"""The stall detector: tells with an event when a wait becomes a stall or a worker is lost, and when that is over."""

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncConnection

from sync_service import store
from sync_service.operations.events import Note, emit, note
from sync_service.operations.waits import OVER, waits

WORKER = "worker-lost"
Stall = tuple[str, str, int]
"""Its code, who is stalled (or the lost worker), and the step, 0 for none: what makes it the same one next time."""


async def detect(connection: AsyncConnection, run: str, stall_s: float, lost_s: float) -> bool:
    """Compare what is stalled now with what was told; whether there was something to tell."""
    now = await _now(connection, run, stall_s, lost_s)
    told = {(row.code, row.who, row.step) for row in await store.stalls.told(connection, run)}
    began = {stall: since for stall, (since, _) in now.items() if stall not in told}
    ended = told - now.keys()
    if began:
        await store.stalls.insert(connection, run, began)
    if ended:
        await store.stalls.delete(connection, run, ended)
    notes = [now[stall][1] for stall in sorted(began)] + [_end(run, stall) for stall in sorted(ended)]
    await emit(connection, notes)
    return bool(notes)


async def _now(
    connection: AsyncConnection, run: str, stall_s: float, lost_s: float
) -> dict[Stall, tuple[datetime, Note]]:
    """What is stalled in a run, and which workers are lost: since when, and the event that tells it."""
    found = await store.runs.find(connection, run)
    if found.state in OVER:
        return {}
    now: dict[Stall, tuple[datetime, Note]] = {}
    for wait in await waits(connection, found, await store.status.streams(connection, run), stall_s):
        if wait.stalled:
            body = wait.model_dump(include={"code", "who", "whom", "step", "count", "since", "until"})
            since = datetime.fromisoformat(wait.since)
            now[wait.code, wait.who, wait.step or 0] = since, note(run, "stall-began", **body)
    for row in await store.workers.lost(connection, run, lost_s):
        now[WORKER, row.worker, 0] = row.seen_at, note(run, "worker-lost", worker=row.worker)
    return now


def _end(run: str, stall: Stall) -> Note:
    code, who, step = stall
    if code == WORKER:
        return note(run, "worker-back", worker=who)
    return note(run, "stall-ended", code=code, who=who, step=step or None)
