"""docs/tutorial-two-machines.md: all that it says to the sync service is done, in order; both servers take its files.

Other than on the page are only addresses and ports. That a server goes on elsewhere is shown by tests/deploy/drill.py.
"""

import asyncio
import os
import re
import shlex
import sys
import tomllib
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx
import pytest

from executor_server.config import ExecutorConfig
from planner_server.config import PlannerConfig
from shared.client import SyncClient
from shared.config import load
from shared.http.ports import free_port
from shared.ids import new_id
from shared.process import Service
from shared.schemas.rollout import GroupOpen
from tests.integration.docs.markdown import ROOT, blocks
from tests.integration.docs.shell import mark
from tests.waiting import until

PAGE = ROOT / "docs" / "tutorial-two-machines.md"
SHOWN = [block.text for block in blocks(PAGE, "bash")]
RUN = [block.text for block in blocks(PAGE, "bash") if mark(block)]
FILES = {block.note: block.text for block in blocks(PAGE, "toml")}
ENVIRONMENT = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


class Reader:
    """Someone who does what the page says, block by block, on one machine that has both names."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._blocks, self._port = folder, iter(RUN), str(free_port())
        self._sync: Service | None = None
        self.url = f"http://127.0.0.1:{self._port}"

    async def does(self) -> str:
        """The next block, to its end; what it prints."""
        process = await asyncio.create_subprocess_exec(
            *self._words(), cwd=self._folder, env=os.environ | ENVIRONMENT, stdout=-1, stderr=-1
        )
        printed, told = await process.communicate()
        assert process.returncode == 0, (printed + told).decode()
        return printed.decode()

    async def serves(self) -> None:
        """The next block, which is the sync service: in place of the one before."""
        await self.ends()
        words = self._words(f"cd {self._folder}; exec ")
        self._sync = Service("sync service", words, self._folder / "sync.log", ENVIRONMENT)
        await until(self._ready, every_s=0.05)

    async def ends(self) -> None:
        if self._sync is not None:
            await asyncio.to_thread(self._sync.stop)
            assert self._sync.exit_code == 0, self._sync.obituary()

    def _words(self, before: str = "") -> list[str]:
        text = re.sub(r"//alpha:", "//127.0.0.1:", next(self._blocks)).replace("8700", self._port)
        return ["bash", "-euo", "pipefail", "-c", before + text]

    async def _ready(self) -> bool:
        assert self._sync is not None
        assert self._sync.exit_code is None, self._sync.obituary()
        async with httpx.AsyncClient() as http:
            try:
                return (await http.get(f"{self.url}/readyz")).is_success
            except httpx.TransportError:
                return False


@pytest.fixture
async def reader(tmp_path: Path) -> AsyncGenerator[Reader]:
    reader = Reader(tmp_path)
    try:
        yield reader
    finally:
        await reader.ends()


async def test_a_run_is_declared_paused_and_resumed_while_the_service_is_started_for_the_network(
    reader: Reader, tmp_path: Path
):
    await reader.does()
    assert len((tmp_path / "keys").read_text().splitlines()) == 3
    key = (tmp_path / "operator.key").read_text().strip()
    await reader.serves()
    assert "pair" in await reader.does()
    async with SyncClient(reader.url, key=(tmp_path / "planner.key").read_text().strip()) as planner:
        await planner.open_group(new_id(), GroupOpen(run="pair", step=1, index=0, task_id="t1"))
    await reader.does()
    await reader.serves()
    async with SyncClient(reader.url, key=key) as client:
        assert (await client.run("pair")).state == "paused"
        await reader.does()
        assert (await client.run("pair")).state == "running"
    assert "pair" in await reader.does()
    assert next(reader._blocks, None) is None


def test_both_servers_take_their_files_on_either_machine(tmp_path: Path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    lines = [shlex.split(text) for text in SHOWN if "_server --config" in text]
    executor, planner = (
        [load(config, tmp_path / words[4], words[5:]) for words in lines if words[2] == module]
        for config, module in ((ExecutorConfig, "executor_server"), (PlannerConfig, "planner_server"))
    )
    assert [config.url for config in executor] == ["http://127.0.0.1:8702", "http://beta:8702"]
    assert [config.executor_url for config in planner] == [config.url for config in executor]
    assert {config.worker for config in executor} == {"executor-1"}
    assert {config.run for config in executor + planner} == {"pair"}
    demo = tomllib.loads((ROOT / "shared" / "cli" / "demo" / "atlas.toml").read_text())
    for role, (config, _) in {"executor": executor, "planner": planner}.items():
        assert config.limits.model_dump(exclude_unset=True) == demo[role]["limits"]
        assert config.policy.trainer.lr == demo[role]["policy"]["trainer"]["lr"]
