"""The sync service: what each part gives, and where it is.

    routes/        HTTP by noun: one request is one transaction
    operations/    what a call does: the state machines, staleness, exactly once
    store/         every SQL statement, by noun
    states.py      the state machines, as tables
    lanes.py       admission: which requests stand in which lane
    doorbell.py    wakes waiters after a commit, through Redis
    reaper.py      makes the moves that only time causes
    database.py    the pool, and transactions that are run again where Postgres asks for it
    migrations/    the schema; tables.py describes it
    keys.py        the ring of live keys; each route declares who may call it
    dashboard/     pages for people
    embedded/      a Postgres and a Valkey of our own

Nothing happens at import. The lifespan owns the pool, Redis and the loops; a loop that dies ends the process.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from fastapi import FastAPI

from shared.http.guard import Guard, guarded
from shared.http.health import install_health
from shared.http.lifespan import rooted
from shared.http.metrics import install_metrics
from shared.http.problems import install_problems
from shared.http.protocol import install_protocol
from shared.http.requests import install_requests
from sync_service import reaper
from sync_service.config import SyncConfig
from sync_service.dashboard.install import install_dashboard
from sync_service.database import Database
from sync_service.doorbell import Doorbell
from sync_service.health import checks
from sync_service.keys import DatabaseRing
from sync_service.lanes import install_lanes
from sync_service.routes import all_routes
from sync_service.service import Service


def create_app(config: SyncConfig) -> FastAPI:
    """The application; it connects when its lifespan begins."""
    doorbell = Doorbell(config.redis_url, poll_s=config.poll_s, poll_with_redis_s=config.poll_with_redis_s)
    service = Service(config, Database(config.database_url, config.pool_size), doorbell)

    ring = DatabaseRing(service.urgent) if config.auth == "keys" else None

    async def loops() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(doorbell.run())
            group.create_task(reaper.run(service))
            group.create_task(service.traffic.run())
            if ring:
                group.create_task(ring.run())

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        if ring:
            await ring.refresh()
        try:
            async with rooted(app, loops):
                yield
        finally:
            doorbell.stop()
            await service.traffic.flush()
            await service.owners.close()
            await service.database.close()
            await service.urgent.close()

    app = FastAPI(title="Tandem sync service", version="1", lifespan=lifespan, openapi_url=None, redirect_slashes=False)
    app.state.service = service
    app.state.on_stop = doorbell.stop
    install_problems(app)
    install_health(app, checks(service))
    app.include_router(all_routes())
    install_dashboard(app, service, ring)
    install_lanes(app, config.admission, config.held_requests)
    install_metrics(app, service.metrics, service.refresh_metrics)
    install_protocol(app)
    install_requests(app)
    guarded(app, Guard(ring))
    return app
