"""This process in its role's Ray cluster: one of its own on this machine, or one that runs already."""

import asyncio
import os
import secrets
import socket

import ray
from ray.exceptions import RayError

from shared.errors import Conflict, UserError
from shared.lock import OwnFolder
from shared.policy.pool.lifeline import gone

OWN_STORE_BYTES = 2**29
"""The object store of a cluster of one machine: it carries a step's rows, and never weights."""

REACH_S = 10.0
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEAD, SETTINGS = 9, 4
EMPTY_SETTINGS = bytes([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])
"""What a client of HTTP/2 says first, and what a server of it answers with: a frame of that type (RFC 9113)."""


class Cluster:
    """Open while anybody uses it; who opened it releases it once."""

    def __init__(self, address: str | None, cpus: int) -> None:
        self._address, self._cpus = address, cpus
        self._users = 0
        self._folder: OwnFolder | None = None
        self._parts: dict[str, tuple[str, int]] = {}

    async def open(self) -> None:
        """Join the cluster at `address`, or start one with places for `cpus` threads. UserError: there is none."""
        if ray.is_initialized():
            raise Conflict("this process is in a Ray cluster already: a process runs one role")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._users = 1
        try:
            await asyncio.to_thread(self._join if self._address else self._start)
            self._parts = await asyncio.to_thread(_parts)
        except (RayError, RuntimeError, ValueError, OverflowError, OSError) as error:
            await self.release()
            place = f"the Ray cluster at {self._address} cannot be joined" if self._address else "Ray cannot be started"
            raise UserError(f"{place}: {' '.join(str(error).split())[:500]}") from None

    async def died(self) -> str:
        """Wait until the head, or this machine's part of the cluster, is gone, and say which."""
        return await gone(self._parts)

    def keep(self) -> None:
        """One more uses it."""
        self._users += 1

    async def release(self) -> None:
        """The last one ends the connection, and a cluster of its own with it."""
        self._users -= 1
        if self._users == 0:
            await asyncio.to_thread(self._leave)

    def _join(self) -> None:
        if self._address != "auto":  # Ray itself would try for minutes
            _greet(str(self._address))
        ray.init(address=self._address, log_to_driver=False, configure_logging=False)

    def _start(self) -> None:
        """Ray asks for a token by default: this one no other process knows. The folder is not where `auto` looks."""
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        self._folder = OwnFolder("tandem-ray-")
        ray.init(
            address="local",
            num_cpus=self._cpus,
            include_dashboard=False,
            log_to_driver=False,
            configure_logging=False,
            object_store_memory=OWN_STORE_BYTES,
            _temp_dir=str(self._folder.path),
        )

    def _leave(self) -> None:
        ray.shutdown()
        if self._folder:
            self._folder.remove()


def _greet(address: str) -> None:
    """OSError where nothing listens, or not what speaks as the head of a cluster does: HTTP/2, and TLS if so asked."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), REACH_S) as connection:
        if os.environ.get("RAY_USE_TLS") == "1":
            return
        connection.settimeout(REACH_S)
        connection.sendall(PREFACE + EMPTY_SETTINGS)
        answer = connection.recv(FRAME_HEAD, socket.MSG_WAITALL)
    if len(answer) < FRAME_HEAD or answer[3] != SETTINGS:
        raise OSError("what listens there is no Ray cluster")


def _parts() -> dict[str, tuple[str, int]]:
    """Where what this process needs of the cluster listens, by name."""
    context = ray.get_runtime_context()
    host, _, port = context.gcs_address.rpartition(":")
    here = next(node for node in ray.nodes() if node["NodeID"] == context.get_node_id())
    return {
        "the head of the Ray cluster": (host, int(port)),
        "the Ray node of this machine": (here["NodeManagerAddress"], here["NodeManagerPort"]),
    }
