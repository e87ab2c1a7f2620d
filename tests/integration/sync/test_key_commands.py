"""`python -m sync_service keys` and `--keys-file`: made, listed, revoked, imported; a mistake is one line."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from asgi_lifespan import LifespanManager

from shared.http.key_file import line_of
from shared.http.keys import new_key
from sync_service.__main__ import main
from sync_service.app import create_app
from sync_service.config import SyncConfig
from sync_service.key_commands import keep_file

Keys = Callable[..., str]


@pytest.fixture
def keys(database: str, capsys: pytest.CaptureFixture[str]) -> Keys:
    """Run the command; what it printed."""

    def run(*arguments: str) -> str:
        assert main(["keys", *arguments, "--database-url", database]) == 0
        return capsys.readouterr().out.strip()

    return run


def fails(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that the command ends with."""
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    return line


async def status(database: str, key: str, path: str = "/v1/runs") -> int:
    """How a service on this database answers the key."""
    app = create_app(SyncConfig(database_url=database, reaper_s=3600))
    async with LifespanManager(app), httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://s") as http:
        return (await http.get(path, headers={"authorization": f"Bearer {key}"})).status_code


@pytest.fixture
def rotated(keys: Keys) -> tuple[str, str]:
    """Two live keys, of which the first is then revoked."""
    old, new = keys("add", "--role", "viewer"), json.loads(keys("add", "--role", "viewer", "--run", "r1", "--json"))
    assert [line.split() for line in keys("list").splitlines()] == [
        [old.split("_")[1], "viewer", "*", "live"],
        [new["id"], "viewer", "r1", "live"],
    ]
    for _ in range(2):
        assert "is revoked" in keys("revoke", old.split("_")[1])
    listed = json.loads(keys("list", "--json"))
    assert [(row["key"], row["revoked_at"] is None) for row in listed] == [
        (old.split("_")[1], False),
        (new["id"], True),
    ]
    assert new["key"].split("_")[2] not in json.dumps(listed)
    return old, new["key"]


async def test_a_rotation_leaves_the_new_key_alone(rotated: tuple[str, str], database: str):
    old, new = rotated
    assert [await status(database, key) for key in (old, new)] == [401, 200]
    assert await status(database, new, "/v1/runs/r2") == 403


@pytest.fixture
def imported(database: str, keys: Keys, tmp_path: Path) -> tuple[str, str]:
    """Two keys of a file, of which the second was revoked before the file was imported again."""
    (first, kept), (second, gone) = new_key("operator"), new_key("operator")
    file = tmp_path / "keys"
    file.write_text(f"{line_of(kept)}\n{line_of(gone)}\n")
    keep_file(file, database)
    keys("revoke", gone.key)
    assert keys("keep", str(file)).split() == [kept.key, gone.key]
    return first, second


async def test_a_file_is_imported_again_and_revives_nothing(imported: tuple[str, str], database: str):
    assert [await status(database, key) for key in imported] == [200, 401]


def test_mistakes_are_one_line(database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    url = ["--database-url", database]
    for wrong in ("a b", ""):
        assert "no name of a run" in fails(capsys, "keys", "add", "--role", "viewer", "--run", wrong, *url)
    assert "there is no key nobody" in fails(capsys, "keys", "revoke", "nobody", *url)
    assert "cannot be used" in fails(capsys, "keys", "list", "--database-url", "nonsense")
    assert "without keys only this machine" in fails(capsys, "--auth", "loopback", "--host", "0.0.0.0", *url)
    (tmp_path / "keys").write_text("nonsense")
    assert "keys:1" in fails(capsys, "keys", "keep", str(tmp_path / "keys"), *url)
    assert "cannot be read" in fails(capsys, "keys", "keep", str(tmp_path / "none"), *url)
    assert "keys:1" in fails(capsys, "--port", "0", "--keys-file", str(tmp_path / "keys"), *url)
    assert "no use" in fails(capsys, "--port", "0", "--auth", "loopback", "--keys-file", str(tmp_path / "keys"), *url)
