"""`make test-deploy`: several hosts, cut off, given other keys, moved and upgraded in a run, which is then judged.

    make test-deploy                 each act twice
    make test-deploy ARGS=--quick    each act once: one to three minutes on two cores

A control host, a planner host and an executor host are namespaces with addresses of their own. What runs on them are
the commands of deploy/compose.yaml and deploy/compose.worker.yaml, with the secrets of deploy/secrets.sh: between the
hosts is mutual TLS. Needs Linux, root and openssl. Progress on stderr; the last line of stdout is JSON. Exit code 1
where anything was lost or trained twice or the run did not complete, 3 where there can be no namespaces.
"""

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from transformers.utils.logging import disable_progress_bar

from shared.schemas import ROLES
from tests.deploy.acts import cut, finish, move, rotate, upgrade
from tests.deploy.judge import Verdict, judge
from tests.deploy.network import Network, missing, move_to
from tests.deploy.stage import RUN, Stage, stage

HOSTS = ("control", "planner", "executor")
MOVES = ({"dtype": "bfloat16", "threads": 2}, {"dtype": "float32", "threads": 1})
"""Of the executor, in turn: another kind of hardware as far as one machine can be one."""
NO_NAMESPACES = 3
FINDINGS = 20


async def perform(stage: Stage, rounds: int, console: Console) -> dict[str, int]:
    """Every act, `rounds` times; how many there were."""
    began = time.monotonic()
    done = {"cuts": 0, "rotations": 0, "moves": 0, "upgrades": 0}

    def told(kind: str, what: str) -> None:
        done[kind] += 1
        console.print(f"{time.monotonic() - began:6.1f} s  {what}; both roles went on", soft_wrap=True)

    for turn in range(rounds):
        for name in HOSTS:
            await cut(stage, name)
            told("cuts", f"the {name} host was cut off until leases expired, and healed")
        policy = MOVES[turn % len(MOVES)]
        await move(stage, **policy)
        told("moves", f"the executor was killed and moved to {stage.hosts['executor'].address} with {policy}")
        told("rotations", "it has another key there, and the old one is refused")
        await upgrade(stage)
        told("upgrades", "the sync service was stopped, its schema taken down and up, and started")
        if rounds > 1:
            await rotate(stage, "planner")
            told("rotations", "the planner's server has another key, and both others refuse the old one")
    return done


async def drill(network: Network, folder: Path, rounds: int, console: Console) -> tuple[dict[str, object], Verdict]:
    """The whole of it; the line of JSON, and what was found."""
    hosts = {name: network.add(name) for name in HOSTS}
    move_to(hosts["control"])
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asyncio.current_task().cancel)  # ty: ignore
    async with stage(network, hosts, folder) as running:
        console.print("three hosts; the run is under way")
        done = await perform(running, rounds, console)
        steps = await finish(running)
        data = {role: running.workers[role].data for role in ROLES}
        verdict = await asyncio.to_thread(judge, running.control.postgres.conninfo, RUN, data)
        told = [line for worker in running.workers.values() for line in log_probs(worker.log)]
        restarts = {role: running.workers[role].restarts for role in ROLES}
    result: dict[str, object] = {"hosts": len(HOSTS) + done["moves"], **done}
    result |= {"lost": len(verdict.lost), "trained_twice": len(verdict.trained_twice)}
    result |= {"completed": not verdict.unfinished, "steps": steps, "restarts": restarts, "log_probs": told}
    return result, verdict


def log_probs(log: Path) -> list[dict[str, object]]:
    """The comparisons that a server made when it started from a checkpoint."""
    lines = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
    kept = ("checkpoint", "rows", "stored_mean", "sampler_mean")
    return [{k: line[k] for k in kept} for line in lines if line.get("event") == "log-probs-compared"]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        "make test-deploy", description="Cut off, move and upgrade hosts in a run; judge it."
    )
    parser.add_argument("--quick", action="store_true", help="each act once: one to three minutes on two cores")
    rounds = 1 if parser.parse_args().quick else 2
    console, began = Console(stderr=True, highlight=False), time.monotonic()
    if reason := missing():
        console.print(f"test-deploy: {reason}", soft_wrap=True)
        return NO_NAMESPACES
    disable_progress_bar()
    folder = Path(tempfile.mkdtemp(prefix="tandem-deploy-", dir="/var/tmp"))
    folder.chmod(0o755)  # Postgres runs as another user
    network, good = Network(folder), False
    try:
        result, verdict = asyncio.run(drill(network, folder, rounds, console))
        for finding in verdict.findings[:FINDINGS]:
            console.print(finding, markup=False, soft_wrap=True)
        good = not verdict.findings
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("stopped")
        shutil.rmtree(folder)
        return 130
    finally:
        network.close()
        if not good and folder.exists():
            console.print(f"logs, weights and configurations are in {folder}", soft_wrap=True)
    shutil.rmtree(folder) if good else None
    print(json.dumps(result | {"seconds": round(time.monotonic() - began, 1)}), flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
