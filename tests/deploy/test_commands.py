"""What the drill runs is what the compose files say."""

from pathlib import Path

import pytest

from tests.deploy.commands import Compose, interpolated, moved

GIVEN = {"TANDEM_UID": "1", "TANDEM_GID": "1", "TANDEM_PLANNER_AT": "p:1", "TANDEM_EXECUTOR_AT": "e:1"}


def test_variables_are_those_of_compose():
    assert interpolated("${A:?why} ${B:-other} $${A} ${C:-}", {"A": "a"}) == "a other ${A} "
    with pytest.raises(KeyError):
        interpolated("${A:?why}", {})


def test_a_path_of_a_container_becomes_the_one_here_and_no_other_does():
    places = {"/run/secrets/key": Path("/s/key"), "/run/secrets/keys": Path("/s/keys"), "/data": Path("/disk/data")}
    assert moved("--keys=/run/secrets/keys", places) == "--keys=/s/keys"
    assert moved("/run/secrets/key", places) == "/s/key"
    assert moved("/data/a /database /x/data", places) == "/disk/data/a /database /x/data"


def test_a_command_has_its_secrets():
    sync = Compose("compose.yaml", GIVEN).command("sync", Path("/made"), {})
    assert sync.words[1:4] == ["-m", "sync_service", "serve"]
    assert sync.words[sync.words.index("--keys-file") + 1] == "/made/control/keys"
    assert sync.environment["PGPASSFILE"] == "/made/control/pgpass"
    assert not [word for word in sync.words if "/run/secrets" in word]
