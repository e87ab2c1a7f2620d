"""What `/readyz` looks at, each by name: the database, its schema, the disk."""

import asyncio
import shutil

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from shared.errors import TandemError
from shared.http.health import Check
from sync_service import migrate
from sync_service.service import Service

ANSWER_S = 5.0


def checks(service: Service) -> dict[str, Check]:
    """The named checks."""

    async def database() -> str | None:
        try:
            async with asyncio.timeout(ANSWER_S):
                await service.urgent.read(lambda connection: connection.execute(text("SELECT 1")))
        except (SQLAlchemyError, TandemError, TimeoutError) as error:
            return f"the database does not answer: {type(error).__name__}"
        return None

    async def migration() -> str | None:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await service.urgent.read(migrate.fault)
        except (SQLAlchemyError, TandemError, TimeoutError):
            return "the database does not answer"

    async def disk() -> str | None:
        free = (await asyncio.to_thread(shutil.disk_usage, service.config.disk_folder)).free
        return None if free >= service.config.disk_free_bytes else f"only {free} bytes are free"

    return {"database": database, "migration": migration, "disk": disk}
