"""Keys are rotated in the middle of a run, by the commands of docs/operations.md."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from shared.schemas import ROLES, Role
from tests.deploy.control import SYNC
from tests.deploy.stage import Stage
from tests.waiting import until

EXECUTOR = "http://127.0.0.1:8702"
"""By the proxy of the control host, on which this process is."""


@asynccontextmanager
async def another_key(stage: Stage, role: Role) -> AsyncGenerator[None]:
    """A new key for a role's server, which is started inside; then the old one is refused by all, and all go on."""
    key, hashes = stage.secrets / role / "key", stage.secrets / "control" / "keys"
    old, new = key.read_text().strip(), key.with_name("key.new")
    await _tandem("keys", "create", "--role", role, "--out", str(new), "--hashes", str(hashes))
    _spread(stage, hashes)
    await stage.control.keys("keep", str(hashes))
    new.replace(key)
    yield
    id = old.split("_")[1]
    await _tandem("keys", "revoke", id, "--hashes", str(hashes))
    _spread(stage, hashes)
    await stage.control.keys("revoke", id)
    await _refused(old, [SYNC] if role == "executor" else [SYNC, EXECUTOR])


async def _tandem(*words: str) -> None:
    command = [Path(sys.executable).with_name("tandem"), *words]
    await asyncio.to_thread(subprocess.run, command, check=True, stdout=subprocess.DEVNULL, timeout=60)


def _spread(stage: Stage, hashes: Path) -> None:
    """The file of hashes to the host of each role, as a whole, by a rename."""
    for role in ROLES:
        beside = stage.secrets / role / ".keys.new"
        shutil.copy2(hashes, beside)
        beside.replace(stage.secrets / role / "keys")


async def _refused(key: str, urls: list[str]) -> None:
    """Wait until a key is none to each of these servers."""
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=10) as http:

        async def refused() -> bool:
            return all([(await http.get(f"{url}/metrics")).status_code == 401 for url in urls])

        await until(refused, every_s=0.1)
