"""A real Prometheus, on the configuration that is shipped: only targets, pace and folders are a test's own."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from shared.http.ports import free_port
from tests.integration.observability.expressions import PROMETHEUS
from tests.waiting import until


def binary(name: str) -> str:
    """Where `prometheus` or `promtool` is; without it a test fails."""
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"{name} is not installed: apt-get install prometheus", pytrace=False)
    return found


def promtool(*arguments: str, text: str | None = None) -> str:
    """What promtool says; AssertionError where it finds a fault."""
    command = [binary("promtool"), *arguments]
    result = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def write_configuration(folder: Path, targets: Mapping[str, str], key: str) -> Path:
    """The shipped configuration, with a URL for each job, once a second."""
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    config["global"] = dict.fromkeys(config["global"], "1s")
    config["scrape_configs"] = [job for job in config["scrape_configs"] if job["job_name"] in targets]
    for job in config["scrape_configs"]:
        job["static_configs"] = [{"targets": [targets[job["job_name"]].removeprefix("http://")]}]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.key").write_text(key)
    shutil.copy(PROMETHEUS / "alerts.yml", folder)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    return folder / "prometheus.yml"


class Api:
    """Prometheus's own."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def query(self, expression: str) -> tuple[list[dict[str, Any]], str | None]:
        """The samples, and the error where there is one."""
        answer = (await self._http.post("/api/v1/query", data={"query": expression})).json()
        return (answer["data"]["result"], None) if answer["status"] == "success" else ([], answer["error"])

    async def names(self) -> set[str]:
        """Of every series that was scraped or made by a rule."""
        return set((await self._http.get("/api/v1/label/__name__/values")).json()["data"])

    async def rules(self) -> list[dict[str, Any]]:
        """Every rule, with what became of its last evaluation."""
        groups = (await self._http.get("/api/v1/rules")).json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    async def ready(self) -> bool:
        """Whether it answers queries."""
        try:
            return (await self._http.get("/-/ready")).is_success
        except httpx.TransportError:
            return False


@asynccontextmanager
async def running(configuration: Path) -> AsyncGenerator[Api]:
    """Start it on that file, with its data beside it, and stop it."""
    port = free_port()
    arguments = [f"--config.file={configuration}", f"--storage.tsdb.path={configuration.parent / 'data'}"]
    arguments += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    process = await asyncio.create_subprocess_exec(binary("prometheus"), *arguments)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10) as http:
            api = Api(http)
            await until(api.ready)
            yield api
    finally:
        process.terminate()
        await process.wait()
