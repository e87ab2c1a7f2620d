"""The compose files: valid by the specification, and each service of each stack hardened as docs/deployment.md says."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.deploy.compose import EXACT, STACKS, Missing, stack, variables

HOSTS = [(name, role) for name in STACKS for role in ("planner", "executor") if name != "control" or role == "planner"]
SERVICES = [(name, service) for name in STACKS for service in stack(name)["services"]]
SECRET = re.compile(r"PASSWORD|SECRET|TOKEN|KEY|PASSFILE", re.IGNORECASE)
IN_A_URL = re.compile(r"://[^/\s]*:[^/\s]*@")
OWN_NETWORK = {name for name in STACKS if "ray" not in name}
"""Ray's ports are many: its hosts are in a network of their own, and so are their containers."""


@pytest.fixture(params=SERVICES, ids="-".join)
def service(request: pytest.FixtureRequest) -> dict[str, Any]:
    name, service = request.param
    return stack(name)["services"][service]


def test_the_stacks_are_valid_by_the_specification(tmp_path: Path):
    files = [tmp_path / f"{name}-{role}.json" for name, role in HOSTS]
    for file, (name, role) in zip(files, HOSTS, strict=True):
        file.write_text(json.dumps(stack(name, role)))
    command = [Path(sys.executable).parent / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", *files]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("name", ["TANDEM_UID", "TANDEM_GID"])
@pytest.mark.parametrize("which", STACKS)
def test_nothing_starts_before_the_secrets_are_made(which: str, name: str):
    with pytest.raises(Missing, match=name):
        stack(which, given={key: value for key, value in variables("planner").items() if key != name})


def test_it_runs_as_an_account_without_rights_that_can_write_nowhere(service: dict[str, Any]):
    assert service["user"] == "10001:10001"
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.keys() & {"cap_add", "privileged", "pid", "ipc", "userns_mode"}
    assert "/tmp" in {mount.partition(":")[0] for mount in service["tmpfs"]}


def test_it_is_bounded_reaped_restarted_and_its_log_rotates(service: dict[str, Any]):
    limits = service["deploy"]["resources"]["limits"]
    assert limits.keys() == {"cpus", "memory", "pids"}
    assert all(limits.values())
    assert service["init"] is True
    assert service["logging"] == {"driver": "json-file", "options": {"max-size": "10m", "max-file": "5"}}
    ends = service["healthcheck"] == {"disable": True}
    assert service["restart"] == ("no" if ends else "unless-stopped")


def test_its_image_has_an_exact_version(service: dict[str, Any]):
    assert EXACT.fullmatch(service["image"])


def test_no_secret_is_in_its_environment_or_on_its_command_line(service: dict[str, Any]):
    for name, value in service.get("environment", {}).items():
        assert not SECRET.search(name) or str(value).startswith("/run/secrets/") or name == "GF_SECURITY_COOKIE_SECURE"
    assert not IN_A_URL.search(json.dumps(service))
    assert service.get("env_file") is None


@pytest.mark.parametrize("name", STACKS)
def test_every_secret_is_a_file_and_each_is_declared(name: str):
    whole = stack(name)
    declared = whole["secrets"]
    assert all(secret.keys() == {"file"} for secret in declared.values())
    for service in whole["services"].values():
        used = {item if isinstance(item, str) else item["source"] for item in service.get("secrets", [])}
        assert used <= declared.keys()


@pytest.mark.parametrize("name", STACKS)
def test_data_are_in_named_volumes_and_the_rest_is_mounted_for_reading(name: str):
    whole = stack(name)
    for service in whole["services"].values():
        for mount in service.get("volumes", []):
            source, _, *mode = mount.split(":")
            assert source in whole["volumes"] or mode == ["ro"]


@pytest.mark.parametrize("name", STACKS)
def test_who_waits_waits_for_health_or_for_the_end(name: str):
    services = stack(name)["services"]
    for service in services.values():
        for other, how in service.get("depends_on", {}).items():
            ends = services[other]["healthcheck"] == {"disable": True}
            assert how["condition"] == ("service_completed_successfully" if ends else "service_healthy")


@pytest.mark.parametrize("name", sorted(OWN_NETWORK))
def test_only_the_proxy_is_published_and_the_data_network_leads_nowhere(name: str):
    whole = stack(name)
    assert whole["networks"] == {"data": {"internal": True}, "edge": {}}
    services = whole["services"]
    assert {each for each, service in services.items() if "ports" in service} == {"proxy"}
    assert {each for each, service in services.items() if "edge" in service["networks"]} == {"proxy"}
    assert not [each for each, service in services.items() if "network_mode" in service]


def test_rays_containers_are_in_the_hosts_network_with_the_server_on_loopback():
    whole = stack("ray")
    assert "networks" not in whole
    assert {service["network_mode"] for service in whole["services"].values()} == {"host"}
    assert not [name for name, service in whole["services"].items() if service.keys() & {"ports", "networks"}]
    assert "host=127.0.0.1" in whole["services"]["server"]["command"][-1]
    assert whole["services"]["proxy"]["environment"]["TANDEM_LEAVE_BY"] == "127.0.0.1"


def test_postgres_is_healthy_once_it_answers_over_tcp():
    assert stack("control")["services"]["postgres"]["healthcheck"]["test"][:4] == [
        "CMD",
        "pg_isready",
        "-h",
        "127.0.0.1",
    ]


def test_postgres_asks_everyone_who_comes_by_the_network_for_a_password():
    postgres = stack("control")["services"]["postgres"]
    assert postgres["environment"]["POSTGRES_PASSWORD_FILE"] == "/run/secrets/postgres_password"
    assert postgres["environment"]["POSTGRES_INITDB_ARGS"] == "--auth-host=scram-sha-256"
    assert "password_encryption=scram-sha-256" in postgres["command"]
    assert "POSTGRES_HOST_AUTH_METHOD" not in postgres["environment"]


def test_the_profiles_are_those_of_the_page():
    services = stack("control")["services"]
    profiles = {name: service["profiles"] for name, service in services.items() if "profiles" in service}
    assert profiles == {
        "prometheus": ["observability"],
        "grafana": ["observability"],
        "backup": ["backup"],
        "demo": ["demo"],
    }


@pytest.mark.parametrize(("name", "role"), HOSTS)
def test_a_name_is_one_container_or_the_proxy(name: str, role: str):
    services = stack(name, role)["services"]
    networks = {each: service.get("networks") for each, service in services.items()}
    aliases = [alias for found in networks.values() if isinstance(found, dict) for alias in found["data"]["aliases"]]
    assert len(aliases) == len({*aliases})
    assert not {*aliases} & services.keys()
