"""What the compose files run, parsed by what is run; the role servers' configurations, read by the servers."""

import importlib.util
import re
import shlex
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from executor_server.config import ExecutorConfig
from planner_server.config import PlannerConfig
from shared.cli.demo.settings import load_settings
from shared.config import load
from sync_service import command as sync_command
from sync_service.embedded import Services
from tests.integration.deploy.compose import DEPLOY, STACKS, stack
from tests.integration.observability.prometheus import binary

CONFIGS = {"planner": PlannerConfig, "executor": ExecutorConfig}


def lines() -> Iterator[tuple[str, str, list[str]]]:
    """Of each service that runs something of ours or Ray: its stack, its role and the words."""
    for name in STACKS:
        for role in CONFIGS:
            for service in stack(name, role)["services"].values():
                words = service.get("command", [])
                for part in " ".join(words[2:]).split(" && exec ") if words[:2] == ["sh", "-c"] else [words]:
                    yield name, role, shlex.split(part) if isinstance(part, str) else part


def test_each_command_is_one_that_its_program_knows():
    known = 0
    for name, role, words in lines():
        match words:
            case ["python", "-m", "sync_service", *rest]:
                check_sync(rest)
            case ["python", "-m", module, "--config", _, *overrides] if module.endswith("_server"):
                assert module == f"{role}_server"
                check_role(name, role, overrides)
            case ["python", "-m", module, *_]:
                assert importlib.util.find_spec(module)
            case ["tandem", "demo", *overrides]:
                assert load_settings("atlas", overrides).demo.database_url
            case ["ray", action, *rest]:
                check_ray(action, rest)
            case _:
                continue
        known += 1
    assert known >= 2 * len(STACKS)


def check_sync(words: list[str]) -> None:
    arguments = sync_command._parser().parse_args(words)
    assert sync_command._for_psycopg(arguments.database_url)
    if arguments.command == "serve":
        config = sync_command._configuration(arguments, Services("postgresql+psycopg://", "redis://redis"))
        assert config.auth == "keys"


def check_role(name: str, role: str, overrides: list[str]) -> None:
    config = load(CONFIGS[role], DEPLOY / f"{role}.toml", overrides)
    assert config.auth == "keys"
    assert (config.policy.sampler == "vllm") == (name == "vllm")
    if name == "ray":
        assert (config.policy.pool.kind, config.host) == ("ray", "127.0.0.1")


def check_ray(action: str, words: list[str]) -> None:
    from ray.scripts import scripts

    {"start": scripts.start, "health-check": scripts.healthcheck}[action].make_context(action, list(words))


@pytest.mark.parametrize("role", CONFIGS)
def test_a_role_is_found_under_the_name_and_the_port_that_the_others_use(role: str):
    config = load(CONFIGS[role], DEPLOY / f"{role}.toml")
    server = stack("cuda", role)["services"]["server"]
    assert config.public_url == f"http://{role}:{config.port}"
    assert server["networks"]["data"]["aliases"] == [role]
    assert f":{config.port}/readyz" in server["healthcheck"]["test"][-1]
    assert f"{role}:{config.port}" in (DEPLOY / "caddy" / f"{role}.Caddyfile").read_text()
    assert f"{role}:{config.port}" in (DEPLOY / "prometheus" / "prometheus.yml").read_text()


@pytest.mark.parametrize("role", CONFIGS)
def test_what_a_configuration_names_is_mounted(role: str):
    server = stack("cuda", role)["services"]["server"]
    files = re.findall(r'"/run/secrets/(\w+)"', (DEPLOY / f"{role}.toml").read_text())
    assert {*files} == {*server["secrets"]}
    assert {mount.split(":")[1] for mount in server["volumes"]} == {"/data", "/models"}


def test_prometheus_knows_its_options():
    text = subprocess.run([binary("prometheus"), "--help"], capture_output=True, text=True, check=False, timeout=60)
    words: list[Any] = stack("control")["services"]["prometheus"]["command"]
    assert all(word.partition("=")[0] in text.stdout + text.stderr for word in words)
