"""Eight clients at once, each with random calls on one run: whoever wins, the tables agree with one another."""

import asyncio

import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.rows import dict_row

from tests.faults import invariants, unfinished
from tests.faults.crowd import KINDS, Crowd
from tests.faults.test_state_machine import LONG

CLIENTS = 8
numbers = st.integers(0, 11)
calls = st.tuples(st.sampled_from(KINDS), numbers, numbers, numbers)
scripts = st.lists(st.lists(calls, min_size=4, max_size=12), min_size=CLIENTS, max_size=CLIENTS)


def test_the_tables_agree_whoever_wins(worlds, database: str) -> None:
    @settings(
        max_examples=150 if LONG else 6,
        deadline=None,
        derandomize=not LONG,
        suppress_health_check=list(HealthCheck),
    )
    @given(scripts=scripts)
    def check(scripts: list) -> None:
        world = worlds()
        crowd = Crowd(world.build)

        async def together() -> None:
            await asyncio.gather(*[crowd.follow(number, script) for number, script in enumerate(scripts)])

        with psycopg.connect(database.replace("+psycopg", ""), autocommit=True, row_factory=dict_row) as connection:
            world.run_now(together())
            assert list(invariants.broken(connection)) == []
            world.run_now(crowd.finish())
            assert list(invariants.broken(connection)) == []
            assert list(unfinished.all_of(connection, [world.run])) == []

    check()
