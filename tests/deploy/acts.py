"""What happens to the hosts in the middle of a run. Each act ends when both roles have trained further than before."""

import asyncio
import hashlib

import psycopg
from psycopg.rows import dict_row

from shared.schemas import ROLES, Role
from sync_service import migrate
from tests.deploy.keys import another_key
from tests.deploy.proxy import Proxy
from tests.deploy.stage import NAMES, RUN, Stage, compose
from tests.faults import unfinished

TABLES = ("runs", "batches", "groups", "rollouts", "trajectories", "deliveries", "streams", "policies", "keys", "audit")


async def cut(stage: Stage, name: str) -> None:
    """Pull a host's cable until the leases of those who cannot reach the control host are over; then plug it in."""
    roles = list(ROLES) if name == "control" else [name]
    stage.network.cut(stage.hosts[name])
    over = "SELECT count(*) FROM streams WHERE run = %s AND role = ANY(%s) AND (expires_at < now() OR worker IS NULL)"

    def expired(database: psycopg.Connection) -> bool:
        return database.execute(over, (RUN, roles)).fetchone() == (len(roles),)

    try:
        await stage.until(expired)
    finally:
        stage.network.heal(stage.hosts[name])
    await stage.further()


async def rotate(stage: Stage, role: Role) -> None:
    """Another key for a role's server, which is started again; no other one is."""
    async with another_key(stage, role):
        await stage.workers[role].start_again()
    await stage.further()


async def move(stage: Stage, **policy: object) -> None:
    """`kill -9` the executor; another host goes on from its disk, under another policy and with another key.

    The proxies of the others are started again with its address; no server is.
    """
    executor, old = stage.workers["executor"], stage.hosts["executor"]
    await executor.kill()
    stage.network.cut(old)
    await stage.proxies["executor"].stop()
    stage.moves += 1
    name = f"executor-{stage.moves + 1}"
    stage.hosts["executor"] = new = stage.network.add(name)
    new.know(NAMES)
    stage.proxies["executor"] = Proxy(name, new, stage.folder / f"{name}-proxy", stage.secrets)
    stage.proxies["executor"].start(compose("executor", stage.secrets, stage.hosts))
    for other in ("planner", "control"):
        await stage.proxies[other].start_again(compose(other, stage.secrets, stage.hosts))
    async with another_key(stage, "executor"):
        await executor.move(new, stage.folder / name, **policy)
    await stage.further()


async def upgrade(stage: Stage) -> None:
    """Stop the service; its schema goes one revision down and up again, with every row as it was; start it."""
    await stage.control.stop_serving()
    before = await asyncio.to_thread(contents, stage.control.postgres.conninfo)
    await stage.control.migrate("--down-to", migrate.before_head())
    await stage.control.migrate()
    assert await asyncio.to_thread(contents, stage.control.postgres.conninfo) == before
    await stage.control.serve()
    await stage.further()


def contents(conninfo: str) -> dict[str, str]:
    """A digest of the rows of each table that holds the truth, without nulls: a column nobody filled is no change."""
    found = {}
    with psycopg.connect(conninfo, autocommit=True) as database:
        for table in TABLES:
            query = f"SELECT jsonb_strip_nulls(to_jsonb(t))::text FROM {table} t ORDER BY 1"
            rows = database.execute(query.encode()).fetchall()
            found[table] = f"{len(rows)} {hashlib.sha256(repr(rows).encode()).hexdigest()}"
    return found


async def finish(stage: Stage) -> int:
    """Drain the run, wait until nothing waits and the last checkpoints are there, stop both servers; its steps."""
    await stage.operator.drain(RUN)

    def finished(database: psycopg.Connection) -> bool:
        return not list(unfinished.all_of(database.cursor(row_factory=dict_row), [RUN]))  # ty: ignore

    await stage.until(finished)
    status = await stage.operator.status(RUN)
    folders = [stage.workers[role].data / "checkpoints" for role in ROLES]
    last = max(stream.acked_step for stream in status.roles.values())
    await stage.until(lambda _: all((folder / f"step-{last}").is_dir() for folder in folders))
    for worker in stage.workers.values():
        await worker.stop()
    return last
