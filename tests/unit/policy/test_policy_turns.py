"""What a gradient may go on beside: a load that asks the trainer nothing, and none that does."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shared.policy.policy import Policy
from shared.schemas import PolicyVersion
from tests.guards import always
from tests.waiting import until


class Processes:
    """A trainer and a sampler that only note what they are asked; a load ends when it is told to."""

    def __init__(self, probes: bool) -> None:
        self.probes = probes
        self.log: list[str] = []
        self.go = asyncio.Event()

    async def call(self, method: str, arguments: dict[str, Any]) -> Any:
        self.log.append(method)
        return "checksum" if method == "export" else None

    async def load_weights(self, folder: Path, version: PolicyVersion) -> str:
        self.log.append("load")
        await self.go.wait()
        self.log.append("loaded")
        return "checksum"


@pytest.mark.parametrize(
    ("probes", "order"),
    [(False, ["export", "load", "accumulate", "loaded"]), (True, ["export", "load", "loaded", "accumulate"])],
    ids=["asks-nothing", "asks-the-trainer"],
)
async def test_a_gradient_and_a_load(tmp_path: Path, probes: bool, order: list[str]):
    processes: Any = Processes(probes)
    policy = Policy(processes, processes, SimpleNamespace(), SimpleNamespace(), tmp_path)  # ty: ignore[invalid-argument-type]
    loading = asyncio.create_task(policy.load_sampler(PolicyVersion(epoch=1, step=1, updates=1)))
    await until(lambda: "load" in processes.log)
    updating = asyncio.create_task(policy.update([], 2, always))
    await asyncio.sleep(0)  # it has asked, or waits for its turn
    processes.go.set()
    await asyncio.gather(loading, updating)
    assert processes.log == order
