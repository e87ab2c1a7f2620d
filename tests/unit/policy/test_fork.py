"""What torch processes are forked from, and what becomes of them where nobody ends them."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

from tests.unit.policy.tiny import save_model

KEYS = ("TANDEM_SYNC_KEY", "TANDEM_VLLM_KEY", "VLLM_API_KEY")

SERVER = """
import asyncio, sys
from pathlib import Path

import psutil

from shared.policy.child import Child

SETTINGS = {"device": "cpu", "dtype": "float32", "max_batch": 1, "cache_bytes": 0, "seed": 1}


async def main(model: str, log: str) -> None:
    child = await Child.spawn("sampler", SETTINGS | {"model": model}, Path(log), 1)
    await child.ready()
    processes = psutil.Process().children(recursive=True)
    print(*(process.pid for process in processes), flush=True)
    await child.died()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
"""


def test_they_know_no_key_and_die_with_a_server_that_is_killed(tmp_path: Path):
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    environment = os.environ | dict.fromkeys(KEYS, "hidden") | {"PYTHONPATH": os.getcwd(), "KEPT": "kept"}
    command = [sys.executable, str(script), str(save_model(tmp_path / "model")), str(tmp_path / "sampler.log")]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        children = [psutil.Process(int(pid)) for pid in server.stdout.readline().split()]
        tracker, forks, sampler = children  # the first two are Python's own
        assert sampler.ppid() == forks.pid
        for told in (tracker.environ(), forks.environ()):  # a fork's is that of what it was forked from
            assert told["KEPT"] == "kept"
            assert "hidden" not in told.values()
        server.kill()
    assert psutil.wait_procs(children, timeout=60)[1] == []
    assert "Traceback" not in (tmp_path / "sampler.log").read_text()
