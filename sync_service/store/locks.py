"""Advisory locks: what one process of the service does at a time."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

SWEEP_KEY = 0x7A_4D_EA
_TRY_SWEEP = text("SELECT pg_try_advisory_xact_lock(:key)")


async def try_sweep(connection: AsyncConnection) -> bool:
    """Whether this transaction is the one that sweeps, until it ends; does not wait."""
    return (await connection.execute(_TRY_SWEEP, {"key": SWEEP_KEY})).scalar_one()
