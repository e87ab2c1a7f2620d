"""Three hosts on which everything runs as the compose files say, and a run that is under way."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg

from shared.client import SyncClient
from shared.schemas import ROLES, Role
from shared.schemas.run import RunSpec
from tests.deploy.commands import DEPLOY, Compose, variables
from tests.deploy.control import SYNC, Control
from tests.deploy.network import Host, Network
from tests.deploy.proxy import HOSTS_PORT, Proxy
from tests.deploy.worker import Worker
from tests.waiting import until

RUN = "deployment"
SPEC = RunSpec(
    steps=100_000,  # it is drained in the end
    groups_per_step=2,
    rollouts_per_group=4,
    d_max=2,
    lease_ttl_s=3.0,
    rollout_deadline_s=60.0,
    score_deadline_s=30.0,
    orphan_deadline_s=10.0,
    max_attempts=1000,
    seed=1,
)
NAMES = dict.fromkeys(("sync", "planner", "executor", "postgres", "redis", "grafana"), "127.0.0.1")
"""A host is a network of containers here: its own servers and, for those of others, its proxy."""
FURTHER = 2
"""Steps that each role trains between two acts."""
PATIENCE_S = 180.0
"""For one move of the whole, on a machine that has much else to do."""


@dataclass
class Stage:
    """Everything that runs; `secrets` is what `make secrets` made, `proxies` are by host."""

    network: Network
    hosts: dict[str, Host]
    control: Control
    workers: dict[Role, Worker]
    proxies: dict[str, Proxy]
    operator: SyncClient
    folder: Path
    secrets: Path
    moves: int = 0

    async def until(self, condition: Callable[[psycopg.Connection], bool]) -> None:
        """Wait for something in the database, with both servers under their supervisors."""
        with psycopg.connect(self.control.postgres.conninfo, autocommit=True) as database:

            def check() -> bool:
                for worker in self.workers.values():
                    worker.supervise()
                return condition(database)

            await until(check, PATIENCE_S, every_s=0.05)

    async def further(self) -> None:
        """Both roles go on from where they are now."""
        goals: dict[Role, int] = {}

        def reached(database: psycopg.Connection) -> bool:
            steps = acked(database)
            if not goals:
                goals.update({role: steps[role] + FURTHER for role in ROLES})
            return all(steps[role] >= goals[role] for role in ROLES)

        await self.until(reached)


def acked(database: psycopg.Connection) -> dict[Role, int]:
    """The last step of each stream."""
    found = dict(database.execute("SELECT role, acked_step FROM streams WHERE run = %s", (RUN,)).fetchall())
    return {role: found.get(role, 0) for role in ROLES}


@contextlib.asynccontextmanager
async def stage(network: Network, hosts: dict[str, Host], folder: Path) -> AsyncGenerator[Stage]:
    """A control host, on which this process is, a planner host, an executor host, and a run that is under way."""
    secrets = folder / "secrets"
    await asyncio.to_thread(make_secrets, secrets, hosts)
    control = Control(folder, hosts["control"], compose("control", secrets, hosts), secrets)
    workers: dict[Role, Worker] = {}
    for role in ROLES:
        disk = folder / role
        disk.mkdir()
        workers[role] = Worker(role, RUN, hosts[role], disk, secrets)
    proxies = {name: Proxy(name, host, folder / f"{name}-proxy", secrets) for name, host in hosts.items()}
    key = (secrets / "operator" / "operator.key").read_text().strip()
    try:
        for name, proxy in proxies.items():
            hosts[name].know(NAMES)
            proxy.start(compose(name, secrets, hosts))
        await control.start()
        for role in ("executor", "planner"):
            workers[role].start(compose(role, secrets, hosts))
        async with SyncClient(SYNC, key=key, retry_for_s=PATIENCE_S) as operator:
            await operator.declare_run(RUN, SPEC)
            made = Stage(network, hosts, control, workers, proxies, operator, folder, secrets)
            await made.further()
            yield made
    finally:
        for worker in workers.values():
            await asyncio.to_thread(worker.end)
        for proxy in proxies.values():
            await proxy.stop()
        await control.stop()


def addresses(hosts: dict[str, Host]) -> dict[str, str]:
    """Where the hosts' proxies are."""
    names = {"SYNC": "control", "PLANNER": "planner", "EXECUTOR": "executor"}
    return {f"TANDEM_{name}_AT": f"{hosts[host].address}:{HOSTS_PORT}" for name, host in names.items()}


def make_secrets(folder: Path, hosts: dict[str, Host]) -> None:
    """As `make secrets` does."""
    environment = os.environ | addresses(hosts) | {"TANDEM_CLI": str(Path(sys.executable).with_name("tandem"))}
    command = [DEPLOY / "secrets.sh", folder]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment, timeout=120)


def compose(name: str, secrets: Path, hosts: dict[str, Host]) -> Compose:
    """The compose file of a host, with the addresses of now."""
    given = variables(secrets / name / "compose.env") | addresses(hosts) | {"TANDEM_MODELS": "/models"}
    return Compose("compose.yaml" if name == "control" else "compose.worker.yaml", given)
