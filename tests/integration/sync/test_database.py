"""The database: the schema that the code describes, with ids, scalars and codes in it and no text of a model."""

import re

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.exc import IntegrityError

from shared.schemas.run import TERMS
from shared.schemas.stream import Heartbeat
from sync_service.tables import metadata
from tests.integration.sync.builder import VERSION, Builder

CODE = re.compile(r"^[a-z0-9][a-z0-9-]{0,63}$")
NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
TEXT_COLUMNS = {
    **dict.fromkeys(("state", "scoring", "reason", "role", "named_by", "outcome", "error"), CODE),
    **dict.fromkeys(("fate_reason", "unscored_reason"), CODE),
    **dict.fromkeys(("run", "worker", "task_id", "key", "target", "who"), NAME),
    **dict.fromkeys(("kind", "action", "code"), CODE),
    "checksum": re.compile(r"^[0-9a-f]{64}$"),
    "url": re.compile(r"^https?://[^\s]+$"),
    "device": NAME,
    "doing": re.compile(r"^.{0,500}$"),
    "version_num": re.compile(r"^\d{4}$"),
}
SCALARS = {"integer", "bigint", "smallint", "double precision", "boolean", "uuid", "timestamp with time zone"}
DIGEST_BYTES = 16
CODES = {("events", "body"), ("audit", "details")}
HEARTBEAT = Heartbeat(role="planner", url="http://127.0.0.1:8701", version=VERSION, doing="step 1: rollouts")


def test_the_description_of_the_tables_is_the_schema(database: str) -> None:
    engine = sa.create_engine(database)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, metadata) == []
        for table in metadata.sorted_tables:
            found = sa.inspect(connection).get_check_constraints(table.name)
            described = {c.name for c in table.constraints if isinstance(c, sa.CheckConstraint)}
            assert {constraint["name"] for constraint in found} == described
    engine.dispose()


async def live_through(build: Builder) -> None:
    """A run in which every table gets rows, and every kind of reason occurs."""
    await build.declare(steps=1)
    await build.client.heartbeat(build.run, "planner-1", HEARTBEAT)
    kept, lost = await build.open(1, 0), await build.open(1, 1)
    first, second = build.rollout(kept, 0, calls=2), build.rollout(kept, 1, calls=1)
    await build.report(first, second, build.rollout(lost, 0), build.aborted(lost, 1))
    unscored = {"status": "unscored", "reason": "judge-down", "r_format": None, "r_expert": None}
    await build.send(build.scores(first) + build.scores(second, **unscored) + [build.score(lost)])
    for role in ("planner", "executor"):
        trainer = build.trainer(role)
        await trainer.resume()
        await trainer.confirm(0)
        delivery = await trainer.delivery()
        bad = second.body.executor_trajectories
        await build.client.ack(build.run, role, trainer.ack_of(delivery, drop=bad))


async def test_only_ids_scalars_codes_and_names_are_stored(build: Builder) -> None:
    await live_through(build)
    columns = await build.sql(
        "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public'"
    )
    assert {column.table_name for column in columns} == {*metadata.tables, "alembic_version"}
    seen = set()
    for table, column, kind in columns:
        values = [row[0] for row in await build.sql(f'SELECT "{column}" FROM {table} WHERE "{column}" IS NOT NULL')]
        seen.update((table, column) for _ in values[:1])
        if kind in ("text", "character varying"):
            assert [value for value in values if not TEXT_COLUMNS[column].match(value)] == [], f"{table}.{column}"
        elif kind == "bytea":
            assert {len(value) for value in values} <= {DIGEST_BYTES if column == "digest" else 32}
        elif kind == "ARRAY":
            assert (table, column) == ("rollouts", "executor_trajectories")
        elif kind == "jsonb":
            numbers = {("deliveries", "statistics"), ("deliveries", "histograms")}
            assert (table, column) in {("runs", "spec")} | numbers | CODES
            assert column == "spec" or all(_numbers(value, codes=(table, column) in CODES) for value in values)
        else:
            assert kind in SCALARS, f"{table}.{column} is {kind}"
    assert {("rollouts", "r_correct"), ("trajectories", "r_expert"), ("workers", "doing")} <= seen


def _numbers(value: object, *, codes: bool) -> bool:
    if isinstance(value, dict):
        return all(NAME.match(key) and _numbers(part, codes=codes) for key, part in value.items())
    return isinstance(value, int | float) or (codes and isinstance(value, str) and bool(NAME.match(value)))


POISON = [
    ("rollouts", "r_correct", "'NaN'"),
    ("rollouts", "r_correct", "'Infinity'"),
    ("rollouts", "r_correct", "-0.5"),
    ("rollouts", "r_format", "2"),
    *(("rollouts", f"r_{term}", value) for term in TERMS for value in ("'NaN'", "1.5")),
    ("rollouts", "state", "'lost'"),
    ("trajectories", "r_expert", "'NaN'"),
    ("trajectories", "r_expert", "'-Infinity'"),
    ("trajectories", "state", "'lost'"),
    ("trajectories", "multiplicity", "1"),
    ("groups", "state", "'lost'"),
    ("groups", "scoring", "'lost'"),
    ("deliveries", "state", "'lost'"),
    ("streams", "live_step", "7"),
    ("runs", "state", "'lost'"),
]


async def test_the_database_itself_refuses_poison(build: Builder) -> None:
    await build.declare()
    await build.fill(1)
    for table, column, value in POISON:
        with pytest.raises(IntegrityError, match="check constraint"):
            await build.sql(f"UPDATE {table} SET {column} = {value}")


async def test_bytes_received_are_counted_by_run(build: Builder) -> None:
    await build.declare()
    other = await Builder(build.app, build.client, run="r2", spec=build.spec).declare()
    group = await build.open()
    rollout = build.rollout(group)
    before = (await build.client.status(build.run)).bytes_received
    assert before > 0
    await build.report(rollout)
    after = (await build.client.status(build.run)).bytes_received
    assert after - before >= len(rollout.model_dump_json())
    await build.app.state.service.traffic.flush()
    assert (await build.client.status(build.run)).bytes_received == after
    assert (await build.client.status(other.run)).bytes_received == 0
