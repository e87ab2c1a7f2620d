"""What the database itself refuses, whatever the code above it does."""

import asyncio
from collections.abc import Generator

import psycopg
import pytest

from shared.errors import Conflict
from tests.integration.sync.builder import Builder


@pytest.fixture
def raw(database: str) -> Generator[psycopg.Connection]:
    """The database without the service."""
    with psycopg.connect(database.replace("+psycopg", ""), autocommit=True) as connection:
        yield connection


NUMBERS = ("NaN", "Infinity", "-Infinity", "1.5", "-0.1")


async def test_a_reward_that_would_poison_a_batch(build: Builder, raw: psycopg.Connection) -> None:
    await build.declare()
    await build.fill(1)
    for table, name in (("rollouts", "r_correct"), ("trajectories", "r_expert")):
        for number in NUMBERS:
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


async def test_a_place_that_is_taken(build: Builder, raw: psycopg.Connection) -> None:
    await build.declare()
    await build.fill(1)
    for key, statement in PLACES.items():
        with pytest.raises(psycopg.errors.UniqueViolation, match=key):
            raw.execute(statement.encode())


async def test_of_many_who_open_one_place_one_does(build: Builder) -> None:
    await build.declare()
    results = await asyncio.gather(*[build.open(1, 0) for _ in range(10)], return_exceptions=True)
    assert sum(isinstance(result, str) for result in results) == 1
    assert {type(result) for result in results} == {str, Conflict}
