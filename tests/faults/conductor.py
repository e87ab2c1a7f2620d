"""The conductor: starts everything, kills one thing after another under load, and waits each time for progress.

A seed makes the order of the victims, the moments and the weather repeatable; what the processes do meanwhile is not.
"""

import asyncio
import contextlib
import random
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from shared.client import SyncClient
from shared.schemas import ROLES, Role
from tests.faults import keyring, unfinished
from tests.faults.client import KEY
from tests.faults.plan import SPEC
from tests.faults.proxy import Proxy, Weather, proxied
from tests.faults.servers import PostgresServer, PythonProcess, SyncServer, ValkeyServer, Victim

KINDS = ("sync service", "postgres", "redis", "planner client", "executor client")
PROGRESS_S = 60.0
"""How long the whole may stand still after a restart before it counts as stuck."""
DRAIN_S = 90.0
STEPS_PER_CYCLE = 2
"""Both roles of every run go this far after each restart."""


@dataclass
class Shape:
    """How much fire: `cycles` kills, over `runs` runs at once, no new one after `budget_s` seconds."""

    cycles: int
    runs: int
    budget_s: float
    seed: int


@dataclass
class Outcome:
    """Seconds from each kill to the progress after it, by kind of victim; what stood still; processes that ended."""

    recovery_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    stuck: list[str] = field(default_factory=list)
    steps: int = 0

    @property
    def cycles(self) -> int:
        """Kills that were made."""
        return sum(map(len, self.recovery_s.values()))


@dataclass
class Theatre:
    """Everything that runs, by kind of victim."""

    folder: Path
    postgres: PostgresServer
    runs: list[str]
    victims: dict[str, list[Victim]]
    proxies: list[Proxy]
    operator: SyncClient

    @property
    def clients(self) -> list[PythonProcess]:
        """The client processes."""
        both = self.victims["planner client"] + self.victims["executor client"]
        return [client for client in both if isinstance(client, PythonProcess)]


@contextlib.asynccontextmanager
async def theatre(folder: Path, runs: int) -> AsyncGenerator[Theatre]:
    """Postgres, Valkey, two sync services behind proxies, and for each run a planner's and an executor's client."""
    postgres, valkey = PostgresServer(folder), ValkeyServer(folder)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(postgres.stop)
        stack.push_async_callback(valkey.stop)
        await asyncio.gather(postgres.create(), valkey.start())
        await postgres.start()
        keys = keyring.issue(postgres.conninfo)
        services = [SyncServer(f"sync-{n}", folder, postgres.conninfo, valkey.url) for n in (1, 2)]
        for service in services:
            stack.push_async_callback(service.stop)
        await asyncio.gather(*[service.start() for service in services])
        proxies = [await stack.enter_async_context(proxied(service.port)) for service in services]
        names = [f"run-{n}" for n in range(1, runs + 1)]
        operator = await stack.enter_async_context(SyncClient(services[0].url, key=keys["operator"]))
        for name in names:
            await operator.declare_run(name, SPEC)
        clients = {
            role: [_client(role, name, folder, proxy, keys[role]) for name in names]
            for role, proxy in zip(ROLES, proxies, strict=True)
        }
        for client in clients["planner"] + clients["executor"]:
            stack.push_async_callback(client.stop)
            await client.start()
        victims = dict(
            zip(KINDS, (services, [postgres], [valkey], clients["planner"], clients["executor"]), strict=True)
        )
        yield Theatre(folder, postgres, names, victims, proxies, operator)


def _client(role: Role, run: str, folder: Path, proxy: Proxy, key: str) -> PythonProcess:
    where = ("--url", f"http://127.0.0.1:{proxy.port}", "--run", run, "--folder", str(folder))
    return PythonProcess(f"{run}-{role}", folder, "tests.faults.client", role, *where, environment={KEY: key})


async def perform(stage: Theatre, shape: Shape, told: Callable[[str, float], None]) -> Outcome:
    """The kills, then the drain. `told` hears of each cycle: its kind and its seconds."""
    dice, outcome = random.Random(shape.seed), Outcome()
    ends = time.monotonic() + shape.budget_s
    await _progress(stage, outcome)
    for kind in schedule(shape.cycles, dice):
        if time.monotonic() > ends or outcome.stuck:
            break
        victim = dice.choice(stage.victims[kind])
        for proxy in stage.proxies:
            proxy.weather = weather(dice)
        await asyncio.sleep(dice.uniform(0, 0.3))
        began = time.monotonic()
        await victim.kill()
        await asyncio.sleep(dice.choice((0, 0, dice.uniform(0, 0.5))))
        for proxy in stage.proxies:
            proxy.weather = Weather()
            proxy.reset()
        await victim.start()
        await _progress(stage, outcome)
        outcome.recovery_s[kind].append(time.monotonic() - began)
        told(kind, outcome.recovery_s[kind][-1])
    await _drain(stage, outcome)
    return outcome


def schedule(cycles: int, dice: random.Random) -> list[str]:
    """Every kind equally often, in a shuffled order within each round."""
    kinds: list[str] = []
    while len(kinds) < cycles:
        kinds += dice.sample(KINDS, len(KINDS))
    return kinds[:cycles]


def weather(dice: random.Random) -> Weather:
    """What the network does to new connections and chunks until the victim is back."""
    return dice.choice(
        (
            Weather(),
            Weather(latency_s=dice.uniform(0.001, 0.05)),
            Weather(half_open=True),
            Weather(cut_after=dice.randrange(1, 4000)),
            Weather(swallow=dice.choice((b":ack", b"rollouts:batch", b"trajectories:batch", b":lease", b":resume"))),
        )
    )


async def _progress(stage: Theatre, outcome: Outcome) -> None:
    """Until both roles of every run have acked more steps than now; where they do not in time, they are stuck."""
    target = {place: step + STEPS_PER_CYCLE for place, step in (await _acked(stage)).items()}
    deadline = time.monotonic() + PROGRESS_S
    while True:
        _ended(stage, outcome)
        behind = [place for place, step in (await _acked(stage)).items() if step < target[place]]
        if not behind or outcome.stuck:
            return
        if time.monotonic() > deadline:
            outcome.stuck += [f"{' '.join(place)} acked no step for {PROGRESS_S:.0f} s" for place in behind]
            return
        await asyncio.sleep(0.05)


async def _acked(stage: Theatre) -> dict[tuple[str, str], int]:
    async with await psycopg.AsyncConnection.connect(stage.postgres.conninfo) as database:
        rows = await (await database.execute("SELECT run, role, acked_step FROM streams")).fetchall()
        return {(run, role): step for run, role, step in rows}


def _ended(stage: Theatre, outcome: Outcome) -> None:
    """Clients that ended by themselves, before the drain."""
    for client in stage.clients:
        assert client.service is not None
        if client.service.exit_code is not None:
            outcome.stuck.append(client.service.obituary())


async def _drain(stage: Theatre, outcome: Outcome) -> None:
    """Open nothing more, and wait until every client has ended by itself and every deadline is past."""
    outcome.steps = sum((await _acked(stage)).values())
    for run in stage.runs:
        await stage.operator.drain(run)
    deadline = time.monotonic() + DRAIN_S
    while time.monotonic() < deadline and not outcome.stuck:
        codes = [client.service.exit_code for client in stage.clients if client.service]
        outcome.stuck += [
            client.service.obituary() for client in stage.clients if client.service and client.service.exit_code
        ]
        if all(code == 0 for code in codes) and not await asyncio.to_thread(_unfinished, stage):
            return
        await asyncio.sleep(0.2)


def _unfinished(stage: Theatre) -> list[str]:
    with psycopg.connect(stage.postgres.conninfo, autocommit=True, row_factory=psycopg.rows.dict_row) as database:
        return list(unfinished.all_of(database, stage.runs))
