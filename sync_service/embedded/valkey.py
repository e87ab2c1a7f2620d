"""Valkey on a loopback port. It is a doorbell: it keeps nothing on disk."""

import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from shared.http.ports import free_port
from sync_service.embedded.account import Account
from sync_service.embedded.binaries import valkey_binary
from sync_service.embedded.child import Child

START_S = 10.0


@asynccontextmanager
async def valkey(home: Path, logs: Path, account: Account) -> AsyncGenerator[str | None]:
    """Run Valkey; yields its URL, or None where no binary is to be had: then waiters poll."""
    binary = valkey_binary(home, account)
    if binary is None:
        yield None
        return
    port = free_port()
    command = [str(binary), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(home), "--save", ""]
    child = Child("Valkey", [*command, "--appendonly", "no"], logs / "valkey.log", account, signal.SIGTERM)
    try:
        await child.until(lambda: _answers(port), START_S)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        await child.stop()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
    except OSError:
        return False
