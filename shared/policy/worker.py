"""`python -m shared.policy.worker sampler|trainer|shard PARENT`: a torch process. It ends when its parent does.

Its stdin and stdout are frames; whatever prints goes to stderr, which the parent keeps as a log file.
"""

import ctypes
import os
import signal
import sys
from typing import Any, Protocol

from shared.errors import TandemError
from shared.policy.channel import Channel

PR_SET_PDEATHSIG = 1


class Service(Protocol):
    """What a worker runs: `info` is told to the parent; `run` serves until EOFError."""

    info: dict[str, Any]

    def run(self, channel: Channel) -> None:
        """Serve the parent's requests; raises EOFError when it is gone."""
        ...


def main() -> int:
    """Serve until the parent ends or closes the pipe."""
    kind, parent = sys.argv[1], int(sys.argv[2])
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the parent ends us in order
    channel = _take_stdio()
    try:
        (first,) = channel.receive()
        try:
            service = _service(kind, first["settings"])
        except TandemError as error:
            channel.send({"refused": error.problem()})
            return 1
        channel.send({"ready": service.info})
        service.run(channel)
    except (EOFError, BrokenPipeError):
        return 0
    return 0


def _end_with(parent: int) -> None:
    """Die with the parent, even where it is killed (Linux); elsewhere the end of stdin does it."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above
        sys.exit(1)


def _take_stdio() -> Channel:
    """Keep the pipes to ourselves: a library that prints must not write into the frames."""
    channel = Channel(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    return channel


def _service(kind: str, settings: dict[str, Any]) -> Service:
    import transformers  # torch comes only now, so that a bad command line fails at once

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


if __name__ == "__main__":
    sys.exit(main())
