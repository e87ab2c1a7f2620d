"""`tandem keys`, and the keys of a run on one machine."""

import json
import stat
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from shared.cli.demo.keys import ROLES, RunKeys
from shared.cli.demo.services import Services
from shared.cli.demo.settings import load_settings
from shared.cli.keys import add_to
from shared.errors import UserError
from shared.http.key_file import FileRing
from shared.serving.secrets import secret

COMMAND = typer.Typer()
add_to(COMMAND)


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(COMMAND, ["keys", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def test_a_key_goes_to_its_holder_and_its_hash_to_the_servers(tmp_path: Path):
    for role in ("planner", "executor"):
        run("create", "--role", role, "--run", "r1", "--out", tmp_path / f"{role}.key", "--hashes", tmp_path / "keys")
        assert stat.S_IMODE((tmp_path / f"{role}.key").stat().st_mode) == 0o600
    ring = FileRing(tmp_path / "keys")
    found = [ring.find((tmp_path / f"{role}.key").read_text().strip()) for role in ("planner", "executor")]
    assert [(key.role, key.run) for key in found if key] == [("planner", "r1"), ("executor", "r1")]


def test_it_is_printed_where_no_file_is_named(tmp_path: Path):
    text, line = run("create", "--role", "viewer").splitlines()
    shown = json.loads(run("create", "--role", "viewer", "--json"))
    for key, hashed in ((text, line), (shown["key"], shown["line"])):
        (tmp_path / "keys").write_text(hashed)
        found = FileRing(tmp_path / "keys").find(key)
        assert found is not None
        assert (found.role, found.run) == ("viewer", None)


def test_a_key_is_never_written_over(tmp_path: Path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(UserError, match="File exists"):
        run("create", "--role", "viewer", "--out", tmp_path / "mine")
    for wrong in ("a b", ""):  # an empty one, of a variable that is not set, must not become a key for every run
        with pytest.raises(UserError, match="no name of a run"):
            run("create", "--role", "viewer", "--run", wrong)
    with pytest.raises(UserError, match="--hashes"):
        run("create", "--role", "viewer", "--hashes", tmp_path)
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_run_has_its_own_keys_and_keeps_them(tmp_path: Path):
    keys = RunKeys(tmp_path, "walk")
    keys.make()
    before = {role: keys.text(role) for role in ROLES}
    RunKeys(tmp_path, "walk").make()
    ring = FileRing(keys.hashes)
    found = [ring.find(text) for text in before.values()]
    assert {role: keys.text(role) for role in ROLES} == before
    assert [(key.role, key.run) for key in found if key] == [(role, "walk") for role in ROLES]
    assert {stat.S_IMODE(keys.file(role).stat().st_mode) for role in ROLES} == {0o600}


def test_a_start_that_was_killed_while_it_made_keys_is_made_good(tmp_path: Path):
    keys = RunKeys(tmp_path, "walk")
    keys.make()
    keys.hashes.unlink()
    keys.make()
    assert FileRing(keys.hashes).find(keys.text("operator")) is not None


def test_the_demo_configures_keys_by_file_only(tmp_path: Path):
    services = Services(tmp_path, load_settings("smoke", []), {"planner": tmp_path, "executor": tmp_path})
    services.keys.make()
    for role in ("planner", "executor"):
        written = services.write_config(role).read_text()
        assert str(services.keys.file(role)) in written
        assert services.keys.text(role) not in written


def test_a_secret_comes_from_a_file_or_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "one").write_text("first\n")
    (tmp_path / "two").write_text("second\n")
    (tmp_path / "none").write_text("\n")
    assert secret("SYNC_KEY") is None
    monkeypatch.setenv("TANDEM_SYNC_KEY", "third")
    assert secret("SYNC_KEY") == "third"
    monkeypatch.setenv("TANDEM_SYNC_KEY_FILE", str(tmp_path / "two"))
    assert secret("SYNC_KEY") == "second"
    assert secret("SYNC_KEY", tmp_path / "one") == "first"
    for bad in ("none", "nowhere", "."):
        with pytest.raises(UserError, match="TANDEM_SYNC_KEY cannot be read"):
            secret("SYNC_KEY", tmp_path / bad)
    for text in ("two\nlines", "schl\u00fcssel"):
        (tmp_path / "one").write_text(text)
        with pytest.raises(UserError, match="TANDEM_SYNC_KEY is no key"):
            secret("SYNC_KEY", tmp_path / "one")


def test_a_file_of_keys_that_could_not_be_read_for_a_while_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The file is no newer once it can be read."""
    file = tmp_path / "keys"
    old, new = (run("create", "--role", "viewer", "--hashes", file) for _ in range(2))
    old_line, new_line = file.read_text().splitlines()
    file.write_text(old_line)
    ring = FileRing(file)
    monkeypatch.setattr("shared.http.key_file.LOOK_S", 0.0)
    ring._look_at = 0.0
    with monkeypatch.context() as unreadable:
        unreadable.setattr("shared.http.key_file.read_keys", refuse)
        file.write_text(new_line)
        assert ring.find(old) is not None
    file.chmod(0o600)
    assert ring.find(old) is None
    assert ring.find(new) is not None


def refuse(path: Path) -> None:
    raise UserError(f"the file of keys {path} cannot be read: Permission denied")


def test_keys_in_a_file_are_listed_and_revoked(tmp_path: Path):
    file = tmp_path / "keys"
    file.write_text("# ours\n")
    file.chmod(0o640)
    old, new = (json.loads(run("create", "--role", "viewer", "--hashes", file, "--json"))["id"] for _ in range(2))
    assert [line.split() for line in run("list", "--hashes", file).splitlines()] == [
        [old, "viewer", "*"],
        [new, "viewer", "*"],
    ]
    assert json.loads(run("revoke", old, "--hashes", file, "--json")) == {"revoked": old}
    assert [row["key"] for row in json.loads(run("list", "--hashes", file, "--json"))] == [new]
    assert file.read_text().startswith("# ours\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    with pytest.raises(UserError, match="has no key"):
        run("revoke", old, "--hashes", file)
    with pytest.raises(UserError, match="whose keys"):
        run("list")
    with pytest.raises(UserError, match="in one place"):
        run("list", "--hashes", file, "--database-url", "postgresql://x")
