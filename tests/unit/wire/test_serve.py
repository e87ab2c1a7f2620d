"""A process that serves ends when it is told to, with 0; and within a bound where a thread of it hangs."""

import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from shared.errors import UserError
from shared.http.serve import bind

ROOT = Path(__file__).parents[3]
SCRIPT = """
    import resource, socket, sys, threading, time
    from fastapi import FastAPI
    from shared.http import serve

    serve.EXIT_S, serve.THREAD_S = 2, 0.1
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    app = FastAPI()
    @app.router.on_startup.append
    def started():
        print("started", resource.getrlimit(resource.RLIMIT_NOFILE)[0] == most, flush=True)
        if sys.argv[1] == "hangs":
            threading.Thread(target=time.sleep, args=(600,)).start()

    serve.serve(app, "127.0.0.1", port)
"""


@pytest.mark.parametrize(
    ("thread", "sent", "code"),
    [("none", signal.SIGTERM, 0), ("none", signal.SIGINT, 0), ("hangs", signal.SIGTERM, 1)],
)
def test_it_ends(thread: str, sent: signal.Signals, code: int):
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), thread]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started True\n"  # it may have as many connections as the system allows
        process.send_signal(sent)
        _, error = process.communicate(timeout=60)
    assert process.returncode == code, error
    assert ("the shutdown took longer" in error) == (thread == "hangs")


@pytest.mark.parametrize("host", ["a..b", "nul\0", "\u00e9" * 70])
def test_what_is_no_host_is_one_line(host: str):
    with pytest.raises(UserError, match="cannot listen on") as caught:
        bind(host, 0)
    assert "\n" not in caught.value.detail
