"""A free port for a server that is about to start."""

import random
import socket

BELOW_EPHEMERAL = range(20_000, 32_768)
"""Linux gives outgoing connections ports from 32768 on: none of these takes ours before it is used."""
TRIES = 100


def free_port(host: str = "127.0.0.1") -> int:
    """A port of `host` that nobody listens on now; OSError where `host` is not ours, or many are taken."""
    fault = OSError()
    for port in random.Random().sample(BELOW_EPHEMERAL, TRIES):
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError as error:
                fault = error
            else:
                return port
    raise fault
