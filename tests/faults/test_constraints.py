"""What the database itself refuses, whatever the code above it does."""

from collections.abc import Generator

import psycopg
import pytest

from tests.integration.sync.builder import Builder


@pytest.fixture
def raw(database: str) -> Generator[psycopg.Connection]:
    """The database without the service."""
    with psycopg.connect(database.replace("+psycopg", ""), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1.5", "-0.1"])
@pytest.mark.parametrize("column", ["rollouts.r_correct", "trajectories.r_expert"])
async def test_a_reward_that_would_poison_a_batch(
    build: Builder, raw: psycopg.Connection, column: str, number: str
) -> None:
    await build.declare()
    await build.fill(1)
    table, _, name = column.partition(".")
    with pytest.raises(psycopg.errors.CheckViolation, match=f"{name}_in_bounds"):
        raw.execute(f"UPDATE {table} SET {name} = '{number}'".encode())


PLACES = {
    "groups_place": """
        INSERT INTO groups (id, run, step, index, task_id, deadline)
        SELECT gen_random_uuid(), run, step, index, 'other', deadline FROM groups""",
    "rollouts_slot": """
        INSERT INTO rollouts (id, run, group_id, slot, state, executor_trajectories, tokens, digest)
        SELECT gen_random_uuid(), run, group_id, slot, 'aborted', '{}', 0, '' FROM rollouts""",
    "deliveries_place": """
        INSERT INTO deliveries (id, run, role, step) SELECT gen_random_uuid(), run, role, step FROM deliveries""",
}


@pytest.mark.parametrize("key", PLACES)
async def test_a_place_that_is_taken(build: Builder, raw: psycopg.Connection, key: str) -> None:
    await build.declare()
    await build.fill(1)
    with pytest.raises(psycopg.errors.UniqueViolation, match=key):
        raw.execute(PLACES[key].encode())
