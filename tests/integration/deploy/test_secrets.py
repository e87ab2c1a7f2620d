"""`make secrets`: every file that the compose files mount, for its owner only, made once and never again."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from shared.http.key_file import read_keys
from shared.http.keys import KeyRing
from tests.integration.deploy.compose import STACKS, stack, variables
from tests.integration.deploy.secrets import make_secrets, run_secrets


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


@pytest.fixture
def ours(made: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return shutil.copytree(made, tmp_path / "secrets")


def test_a_lost_key_is_made_again_and_all_hosts_are_told_of_it(ours: Path):
    (ours / "planner" / "key").unlink()
    assert make_secrets(ours) == ["planner/key", "planner/keys", "executor/keys"]
    rings = [KeyRing(read_keys(ours / host / "keys")) for host in ("control", "planner", "executor")]
    found = [ring.find((ours / "planner" / "key").read_text().strip()) for ring in rings]
    assert [key.role for key in found if key] == ["planner"] * 3


def test_who_names_no_addresses_is_told(ours: Path):
    for file in ours.glob("*/compose.env"):
        file.unlink()
    told = run_secrets(ours, TANDEM_SYNC_AT="10.0.0.1:8443").stderr.splitlines()
    assert [line.split()[1] for line in told] == ["TANDEM_PLANNER_AT", "TANDEM_EXECUTOR_AT"]
    assert "TANDEM_SYNC_AT=10.0.0.1:8443" in (ours / "planner" / "compose.env").read_text().splitlines()
    assert run_secrets(ours).stderr == ""


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
