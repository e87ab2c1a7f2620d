"""A role's server on a host of its own, with a supervisor that starts it again where it ends with exit code 1."""

import asyncio
import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import psutil
import tomli_w

from shared.process import Service
from shared.schemas import Role
from tests.deploy.commands import Compose, configuration
from tests.deploy.network import Host
from tests.e2e.survival.processes import kill
from tests.integration.servers.trio import answers, calls
from tests.parity_environment import save_model

ROOT = Path(__file__).parents[2]
CONFIGURATION = "/etc/tandem/server.toml"
OTHERS: dict[Role, Role] = {"planner": "executor", "executor": "planner"}
LIMITS = {"max_new_tokens": 2, "max_turns": 6, "max_calls": 4, "max_context_tokens": 200}
POLICY: dict[str, Any] = {
    "device": "cpu",
    "threads": 1,
    "seed": 1,
    "checkpoints": {"every": 3, "keep_last": 2},
    "trainer": {"lr": 1e-3, "max_gap": 0.5},
}
OWN: dict[Role, dict[str, Any]] = {
    "planner": {"invocation_deadline_s": 8.0, "limits": LIMITS},
    "executor": {"invocation_deadline_s": 7.0, "limits": LIMITS | {"deadline_s": 6.0}},
}
PATIENCE_S = 120.0
SAMPLED_BY = "SELECT 1 FROM trajectories WHERE purgeable = 0 AND updates = ? LIMIT 1"


class Worker:
    """One role's server and what is on its host's disk."""

    def __init__(self, role: Role, run: str, host: Host, disk: Path, secrets: Path) -> None:
        self.role: Role = role
        self.host, self.disk = host, disk
        self.restarts = 0
        self.policy = POLICY
        self._run, self._secrets = run, secrets
        self._service: Service | None = None
        save_model(disk / "models" / role, role, {**answers(), **calls(role)})

    @property
    def data(self) -> Path:
        """The server's folder."""
        return self.disk / "data"

    @property
    def log(self) -> Path:
        """What it says, over all its starts on this host."""
        return self.disk / "server.log"

    def start(self, compose: Compose) -> None:
        """Start it on `host`, as `compose.worker.yaml` says."""
        self._compose = compose
        config = self.disk / "server.toml"
        places = {"/data": self.data, "/models": self.disk / "models", CONFIGURATION: config}
        secrets = compose.secrets("server", self._secrets)
        changes = {"run": self._run, "environment": "tests.parity_environment:Parity", "policy": self.policy}
        made = configuration(self.role, {**places, **secrets}, changes | OWN[self.role])
        config.write_text(tomli_w.dumps(made))
        command = compose.command("server", self._secrets, places)
        environment = {"PYTHONPATH": str(ROOT), **command.environment}
        self._service = Service(self.role, self.host.command(command.words), self.log, environment)

    def supervise(self) -> None:
        """Start it again where it has ended by a fault; AssertionError where that would not mend it."""
        assert self._service is not None
        if self._service.exit_code is not None:
            assert self._service.exit_code == 1, self._service.obituary()
            self.restarts += 1
            self.start(self._compose)

    async def start_again(self) -> None:
        """Stop it, and start it as it was."""
        await self.stop()
        self.start(self._compose)

    async def stop(self) -> None:
        """SIGTERM; it must end as asked."""
        assert self._service is not None
        await asyncio.to_thread(self._service.stop)
        assert self._service.exit_code == 0, self._service.obituary()

    def end(self) -> None:
        """Whatever state it is in."""
        if self._service is not None:
            self._service.stop()

    async def kill(self) -> None:
        """`kill -9`, with its children, at a moment at which there is something to compare log-probs with."""
        assert self._service is not None
        process = psutil.Process(self._service.pid)
        async with asyncio.timeout(PATIENCE_S):
            process.suspend()
            while not self._comparable():
                process.resume()
                await asyncio.sleep(0.1)
                process.suspend()
        await kill(process)

    async def move(self, host: Host, disk: Path, **policy: Any) -> None:
        """After a kill: another host goes on from what was on the disk, under another policy."""
        await asyncio.to_thread(shutil.copytree, self.disk, disk)
        self.host, self.disk, self.policy = host, disk, POLICY | policy
        self.log.unlink()
        self.start(self._compose)

    def _comparable(self) -> bool:
        """Whether the last checkpoint's weights have sampled a row that is stored, and that no checkpoint contains."""
        saved = [json.loads(file.read_text()) for file in self.data.glob("checkpoints/step-*/trainer.json")]
        if not saved:
            return False
        updates = max(saved, key=lambda meta: meta["step"])["updates"]
        with sqlite3.connect(self.data / "trajectories.sqlite") as store:
            return bool(store.execute(SAMPLED_BY, (updates,)).fetchone())
