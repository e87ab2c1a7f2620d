"""`tandem keys` on the sync service's database: its own command does it, and only it knows the database."""

import stat
from pathlib import Path

from shared.http.keys import FORM
from tests.integration.cli.command import Outcome, call


def keys(database: str, *words: str | Path) -> Outcome:
    """Run it on that database."""
    return call(("keys", *words, "--database-url", database), {})


def test_a_key_is_made_listed_and_revoked(database: str, tmp_path: Path):
    file = tmp_path / "viewer.key"
    made = keys(database, "create", "--role", "viewer", "--run", "r1", "--out", file, "--json").json
    assert set(made) == {"id", "role", "run"}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert FORM.fullmatch(file.read_text().strip())
    assert keys(database, "list").lines == [f"{made['id']}  viewer    r1  live"]
    assert keys(database, "revoke", made["id"]).code == 0
    (row,) = keys(database, "list", "--json").json
    assert row["revoked_at"] is not None


def test_a_key_that_cannot_be_written_is_not_live(database: str, tmp_path: Path):
    (tmp_path / "mine").write_text("precious")
    refused = keys(database, "create", "--role", "viewer", "--out", tmp_path / "mine")
    assert (refused.code, "cannot be written" in refused.fault) == (2, True)
    assert keys(database, "list").lines == []


def test_the_database_may_come_from_the_environment(database: str):
    made = keys(database, "create", "--role", "operator", "--json").json
    listed = call(("keys", "list", "--json"), {"TANDEM_DATABASE_URL": database}).json
    assert [row["key"] for row in listed] == [made["id"]]
