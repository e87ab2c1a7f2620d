"""`async with embedded(folder) as services`: both servers run, on ports of their own, with their data in `folder`."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from shared.lock import locked
from sync_service.embedded.account import server_account
from sync_service.embedded.home import server_home
from sync_service.embedded.postgres import postgres
from sync_service.embedded.valkey import valkey


@dataclass(frozen=True, slots=True)
class Services:
    """Where the two servers are. Without a Redis binary `redis_url` is None, and waiters poll."""

    database_url: str
    redis_url: str | None


@asynccontextmanager
async def embedded(folder: Path) -> AsyncGenerator[Services]:
    """Start Postgres and Valkey, and stop them at the end; they also end if this process is killed.

    The same folder is the same data again. Call it in the main thread. UserError: a server does not start (with the
    last lines of its log), or another process runs on this folder.
    """
    account = server_account()
    home = server_home(folder, account)
    with locked(folder, "runs its database"):
        async with postgres(home, folder, account) as database_url, valkey(home, folder, account) as redis_url:
            yield Services(database_url, redis_url)
