"""The compose files of deploy/, merged and with their variables filled in, as `docker compose config` would do.

Of the merge only what these files need: mappings key by key, lists one after the other, `!reset` removes; what is run
is replaced as a whole. A variable is `${NAME}`, `${NAME:-default}` or `${NAME:?why}`, and `$$` is a dollar.
"""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from tests.integration.docs.markdown import ROOT

DEPLOY = ROOT / "deploy"
REPLACED = {"command", "entrypoint", "test"}
VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?::([-?])([^}]*))?\})")
EXACT = re.compile(r"(postgres:\d+\.\d+|[\w./-]+:v?\d+\.\d+\.\d+)(-[\w.-]+)?")
"""An image by its whole version: of Postgres, that is two numbers."""
WORKER = ("compose.worker.yaml",)
STACKS: dict[str, tuple[str, ...]] = {
    "control": ("compose.yaml",),
    "cuda": (*WORKER, "compose.cuda.yaml"),
    "rocm": (*WORKER, "compose.rocm.yaml"),
    "cpu": (*WORKER, "compose.cpu.yaml"),
    "vllm": (*WORKER, "compose.cuda.yaml", "compose.vllm.yaml"),
    "ray": (*WORKER, "compose.cuda.yaml", "compose.ray.yaml"),
    "ray-worker": ("compose.ray-worker.yaml", "compose.cuda.yaml"),
}
"""What is put together to run on one host."""
SET = {
    "TANDEM_MODELS": "/srv/models",
    "TANDEM_VLLM_MODEL": "/models/planner",
    "TANDEM_KFD_GID": "44",
    "TANDEM_RENDER_GID": "105",
    "TANDEM_RAY_ADDRESS": "10.0.0.4",
    "TANDEM_RAY_HEAD": "10.0.0.4:6379",
}
"""Variables that a person sets; the others are those of the compose.env that `make secrets` writes."""


class Missing(Exception):
    """A variable that is required is not set."""


class _Loader(yaml.SafeLoader):
    """Knows `!reset`."""


_RESET = object()
_Loader.add_constructor("!reset", lambda loader, node: _RESET)


def variables(role: str) -> dict[str, str]:
    """What is set on the host of a role."""
    peer, port = ("executor", "8701") if role == "planner" else ("planner", "8702")
    made = {"TANDEM_UID": "10001", "TANDEM_GID": "10001", "TANDEM_ROLE": role, "TANDEM_PEER": peer}
    made |= {f"TANDEM_{host}_AT": f"{host.lower()}.example:8443" for host in ("SYNC", "PLANNER", "EXECUTOR")}
    return made | {"TANDEM_SERVER_PORT": port} | SET


def stack(name: str, role: str = "planner", given: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The merged files of a stack; Missing where a variable is required and not in `given`."""
    result: dict[str, Any] = {}
    for file in STACKS[name]:
        text = (DEPLOY / file).read_text()
        result = _merge(result, yaml.load(text, _Loader))
    result = {key: value for key, value in result.items() if not key.startswith("x-")}
    return _filled(result, variables(role) if given is None else given)


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        if value is _RESET:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merge(old if isinstance(old, dict) else {}, value)
        elif isinstance(value, list) and isinstance(old, list) and key not in REPLACED:
            result[key] = [*old, *(item for item in value if item not in old)]
        else:
            result[key] = value
    return result


def _filled(value: Any, given: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {_filled(key, given): _filled(item, given) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, given) for item in value]
    return VARIABLE.sub(lambda found: _value(found, given), value) if isinstance(value, str) else value


def _value(found: re.Match[str], given: Mapping[str, str]) -> str:
    dollar, name, kind, rest = found.groups()
    if dollar:
        return "$"
    if given.get(name):
        return given[name]
    if kind != "-":
        raise Missing(name)
    return rest
