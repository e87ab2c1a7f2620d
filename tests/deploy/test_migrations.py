"""A schema goes down one revision and up again with the rows that it has; further back it is not undone."""

import re
from collections.abc import Generator

import psycopg
import pytest
from fastapi import FastAPI
from sqlalchemy import create_engine, inspect

from shared.client import SyncClient
from shared.errors import UserError
from shared.ids import new_id
from sync_service import migrate
from sync_service.command import main
from tests.deploy.acts import contents
from tests.integration.docs.markdown import ROOT
from tests.integration.sync.builder import Builder


@pytest.fixture
def own(postgres_url: str) -> Generator[str]:
    """A migrated database of its own: the schema of the one that tests share stays as it is."""
    name = f"migrated_{new_id().replace('-', '')}"
    with psycopg.connect(postgres_url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"'.encode())
        url = f"{postgres_url.rpartition('/')[0]}/{name}"
        migrate.upgrade(url)
        yield url
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def schema(url: str) -> tuple[object, list[tuple]]:
    """Columns by table, and what tables are stored with."""
    engine = create_engine(url)
    with engine.connect() as connection:
        found = inspect(connection)
        columns = {table: [str(column) for column in found.get_columns(table)] for table in found.get_table_names()}
        options = connection.exec_driver_sql("SELECT relname, reloptions FROM pg_class WHERE reloptions IS NOT NULL")
        rows = sorted(map(tuple, options))
    engine.dispose()
    return columns, rows


@pytest.fixture
def sync_config(sync_config, own: str):
    """The service on that database."""
    return sync_config.model_copy(update={"database_url": own})


async def test_down_and_up_again_keeps_rows_and_schema(own: str, sync_app: FastAPI, sync_client: SyncClient):
    build = await Builder(sync_app, sync_client).declare()
    await build.fill(1)
    trainer = build.trainer("planner")
    await trainer.resume()
    await trainer.train()
    conninfo = own.replace("+psycopg", "")
    rows, made = contents(conninfo), schema(own)
    below = migrate.before_head()
    assert main(["migrate", "--database-url", own, "--down-to", below]) == 0
    with psycopg.connect(conninfo) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (below,)
    assert contents(conninfo) == rows
    assert schema(own) != made
    assert main(["migrate", "--database-url", own]) == 0
    assert (contents(conninfo), schema(own)) == (rows, made)


async def test_what_would_be_lost_is_not_undone(own: str, sync_app: FastAPI, sync_client: SyncClient):
    build = await Builder(sync_app, sync_client).declare()
    await build.fill(1)
    conninfo = own.replace("+psycopg", "")
    with psycopg.connect(conninfo) as connection:
        connection.execute("UPDATE rollouts SET r_efficiency = 0.5")
    rows, made = contents(conninfo), schema(own)
    with pytest.raises(UserError, match="cannot go down to 0003: rollouts have terms"):
        migrate.downgrade(own, "0003")
    assert (contents(conninfo), schema(own)) == (rows, made)


@pytest.mark.parametrize(("revision", "why"), [("0001", "not undone"), ("nonsense", "nonsense")])
def test_what_cannot_be_undone_is_one_line_and_changes_nothing(own: str, revision: str, why: str):
    with pytest.raises(UserError, match=f"cannot go down to {revision}.*{why}"):
        migrate.downgrade(own, revision)
    with psycopg.connect(own.replace("+psycopg", "")) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (migrate.head(),)


def test_the_page_goes_down_to_the_version_before_this_one():
    (shown,) = re.findall(r"migrate --down-to (\w+)", (ROOT / "docs" / "operations.md").read_text())
    assert shown == migrate.before_head()
