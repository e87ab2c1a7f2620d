"""Torch processes are forks of one process that has imported torch: imported once for all of a server, and kept once.

That process, Python's fork server, runs no code of a model. It ends when the server and what was forked for it have.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess

from shared.serving.secrets import secret_names

PRELOAD = ["shared.policy.sampler_child", "shared.policy.trainer_child"]
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**28)}
"""glibc hands the memory of a freed tensor back at once and faults it in anew: a sixth of a small model's forward."""
ENVIRONMENT = KEEP_MEMORY | {"TOKENIZERS_PARALLELISM": "false", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
"""The last one: whoever asks for a GPU while it is imported must not start CUDA, which no fork survives."""


def prepare() -> None:
    """Start the fork server, where none runs; it imports torch while we go on."""
    forkserver.set_forkserver_preload(PRELOAD)
    with _environment(), _interrupts_blocked():
        forkserver.ensure_running()


def fork(target: Callable[..., None], *arguments: object) -> ForkServerProcess:
    """A process that runs `target`; waits until torch is imported. EOFError: the fork server died meanwhile."""
    process = multiprocessing.get_context("forkserver").Process(target=target, args=arguments, daemon=True)
    process.start()
    return process


@contextmanager
def _environment() -> Generator[None]:
    """Ours without its keys: what runs a model calls nobody."""
    keys = {name: os.environ.pop(name) for name in secret_names(list(os.environ))}
    added = ENVIRONMENT.keys() - os.environ.keys()
    os.environ.update({name: ENVIRONMENT[name] for name in added})
    try:
        yield
    finally:
        os.environ.update(keys)
        for name in added:
            del os.environ[name]


@contextmanager
def _interrupts_blocked() -> Generator[None]:
    """Ctrl-C reaches the whole process group; we end the others in order. A mask is inherited."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
