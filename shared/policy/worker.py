"""What a torch process runs: a sampler, a trainer, or a shard of one. It ends when the server does.

What it prints goes to its log; with the server it exchanges frames over a socket.
"""

import os
import signal
import sys
import threading
from multiprocessing import connection, parent_process
from pathlib import Path
from socket import socket
from typing import Any, Protocol

from setproctitle import setproctitle

from shared.errors import TandemError
from shared.policy.channel import Channel


class Service(Protocol):
    """What a worker runs: `info` is told to the parent; `run` serves until EOFError."""

    info: dict[str, Any]

    def run(self, channel: Channel) -> None:
        """Serve the parent's requests; raises EOFError when it is gone."""
        ...


def work(kind: str, server: socket, log: Path) -> None:
    """Serve until the server ends or closes the socket. Runs in a process of its own (fork.py), and ends it."""
    setproctitle(f"{__name__} {kind}")
    _print_to(log)
    threading.Thread(target=_end_with_server, daemon=True).start()
    with server:
        sys.exit(_serve(kind, Channel(server.fileno(), server.fileno())))


def _serve(kind: str, channel: Channel) -> int:
    try:
        (first,) = channel.receive()
        try:
            service = _service(kind, first["settings"])
        except TandemError as error:
            channel.send({"refused": error.problem()})
            return 1
        channel.send({"ready": service.info})
        service.run(channel)
    except (EOFError, ConnectionError):
        return 0
    return 0


def _end_with_server() -> None:
    """Die with the server, even where it is killed and a step has minutes to go."""
    if server := parent_process():
        connection.wait([server.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)


def _print_to(log: Path) -> None:
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)


def _service(kind: str, settings: dict[str, Any]) -> Service:
    import transformers  # the server imports this file, and no torch

    transformers.logging.disable_progress_bar()
    transformers.logging.set_verbosity_error()
    if kind == "sampler":
        from shared.policy.sampler_child import SamplerService

        return SamplerService(settings)
    if kind == "shard":
        from shared.policy.pool.shard_child import ShardService

        return ShardService(settings)
    from shared.policy.trainer_child import TrainerService

    return TrainerService(settings)
