"""`make secrets`: every file that the compose files mount, for its owner only, made once and never again."""

import os
import subprocess
from pathlib import Path

import pytest

from shared.http.key_file import read_keys
from tests.integration.deploy.compose import STACKS, stack, variables
from tests.integration.deploy.secrets import make_secrets


@pytest.mark.parametrize("role", ["planner", "executor"])
@pytest.mark.parametrize("name", STACKS)
def test_what_a_stack_mounts_is_made(made: Path, name: str, role: str):
    files = [secret["file"] for secret in stack(name, role)["secrets"].values()]
    assert [file for file in files if not (made / file.removeprefix("./secrets/")).is_file()] == []


@pytest.mark.parametrize("role", ["planner", "executor"])
def test_the_variables_of_a_host_are_made(made: Path, role: str):
    lines = dict(line.split("=", 1) for line in (made / role / "compose.env").read_text().splitlines())
    chosen = {"TANDEM_MODELS", "TANDEM_VLLM_MODEL", "TANDEM_KFD_GID", "TANDEM_RENDER_GID"}
    chosen |= {"TANDEM_RAY_ADDRESS", "TANDEM_RAY_HEAD"}
    assert lines.keys() == variables(role).keys() - chosen
    assert (lines["TANDEM_ROLE"], lines["TANDEM_PEER"]) == (role, variables(role)["TANDEM_PEER"])
    assert int(lines["TANDEM_UID"]) > 0


def test_only_their_owner_can_read_them_and_it_is_who_runs_the_containers(made: Path):
    owner = os.getuid() or 10001
    for file in made.rglob("*"):
        assert file.stat().st_mode & 0o077 == 0, file
    assert {file.stat().st_uid for host in ("control", "planner", "executor") for file in (made / host).iterdir()} == {
        owner
    }


def test_a_second_time_makes_nothing_and_changes_nothing(made: Path):
    before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in made.rglob("*") if file.is_file()}
    assert make_secrets(made) == []
    assert {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in before} == before


def test_what_is_missing_is_made_again_and_said(tmp_path: Path):
    first = make_secrets(tmp_path)
    assert sorted(first) == sorted({*first})
    (tmp_path / "control" / "grafana_password").unlink()
    assert make_secrets(tmp_path) == ["control/grafana_password"]


def test_all_hosts_know_the_hashes_and_each_has_its_own_key_only(made: Path):
    hashes = {(made / host / "keys").read_text() for host in ("control", "planner", "executor")}
    assert len(hashes) == 1
    roles = sorted(key.role for key in read_keys(made / "control" / "keys"))
    assert roles == ["executor", "metrics", "operator", "planner", "viewer"]
    for host, names in {"planner": ["key"], "executor": ["key"], "operator": ["operator.key"]}.items():
        found = [file.name for file in (made / host).iterdir() if file.read_text().startswith("tandem_")]
        assert found == names


def test_no_password_is_in_clear_where_it_is_checked(made: Path):
    password = (made / "control" / "redis_password").read_text().strip()
    assert len(password) == 64
    assert password not in (made / "control" / "redis_users").read_text()
    assert password in (made / "control" / "redis_url").read_text()


@pytest.mark.parametrize(("host", "name"), [("control", "sync"), ("control", "tandem.example"), ("planner", "planner")])
def test_a_certificate_is_of_our_authority_and_has_the_name(made: Path, host: str, name: str):
    command = ["openssl", "verify", "-CAfile", made / "ca" / "ca.crt", "-verify_hostname", name]
    for purpose in ("sslserver", "sslclient"):
        given = [*command, "-purpose", purpose, made / host / "host.crt"]
        assert subprocess.run(given, capture_output=True, timeout=60, check=False).returncode == 0
    assert not (made / host / "ca.key").exists()
