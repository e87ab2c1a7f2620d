"""Hosts that are namespaces: each has an address, names of others, and a cable to one switch, which can be pulled.

They are namespaces of the network and of mounts, the latter for a /etc/hosts of their own. They have no names in the
system: each lives as long as its holder, a process that the kernel ends with this one, however this one ends. So
nothing is left behind, two networks do not see one another, and nothing leaves them.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shared.process import Service

CLONE_NEWNET = 0x40000000
PREFIX = "10.213.77"
TOOLS = ("ip", "nsenter", "unshare", "mount")
UNSHARE = ("unshare", "--net", "--mount", "--propagation", "private")
UP_S = 10.0


def missing() -> str | None:
    """Why there can be no namespaces here, in one line; None where there can."""
    if sys.platform != "linux":
        return "network namespaces need Linux"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if absent := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"network namespaces need {', '.join(absent)} (iproute2 and util-linux)"
    tried = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, timeout=10, check=False)
    return f"network namespaces are not allowed here: {tried.stderr.strip()}" if tried.returncode else None


@dataclass(frozen=True)
class Host:
    """One machine of the network."""

    name: str
    address: str
    holder: Service
    names: Path
    """Its /etc/hosts."""

    def command(self, words: Sequence[str]) -> list[str]:
        """The command that runs `words` on this host, as the same process."""
        return ["nsenter", f"--target={self.holder.pid}", "--net", "--mount", "--", *words]

    def know(self, names: Mapping[str, str]) -> None:
        """Addresses by name, from now on; in place, as the file is mounted."""
        lines = [f"{address} {name}\n" for name, address in {"localhost": "127.0.0.1", **names}.items()]
        self.names.write_text("".join(lines))


class Network:
    """A switch and the hosts on it. Make it, and start processes in it, from the main thread only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hosts: list[Host] = []
        self._switch = self._machine("switch", "")
        self._ip(self._switch, "link", "add", "switch", "type", "bridge")
        self._ip(self._switch, "link", "set", "switch", "up")

    def add(self, name: str) -> Host:
        """A further host, plugged in."""
        host = self._machine(name, f"{PREFIX}.{len(self._hosts)}")
        wire = ("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", str(host.holder.pid))
        self._ip(self._switch, *wire)
        self._ip(self._switch, "link", "set", name, "master", "switch", "up")
        self._ip(host, "addr", "add", f"{host.address}/24", "dev", "eth0")
        self._ip(host, "link", "set", "eth0", "up")
        return host

    def cut(self, host: Host) -> None:
        """Pull its cable at the switch: what is under way is lost, and nobody is told."""
        self._ip(self._switch, "link", "set", host.name, "down")

    def heal(self, host: Host) -> None:
        """Plug it in again."""
        self._ip(self._switch, "link", "set", host.name, "up")

    def close(self) -> None:
        """End the holders, and with them the namespaces, once the last process in each is gone."""
        for host in reversed(self._hosts):
            host.holder.stop()

    def _machine(self, name: str, address: str) -> Host:
        holder = Service(f"host {name}", [*UNSHARE, "sleep", "infinity"], self._folder / "network.log")
        host = Host(name, address, holder, self._folder / f"{name}.hosts")
        self._hosts.append(host)
        deadline, ours = time.monotonic() + UP_S, os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{holder.pid}/ns/net") == ours:
            if holder.exit_code is not None or time.monotonic() > deadline:
                raise RuntimeError(holder.obituary())
            time.sleep(0.005)
        host.know({})
        self._run(host, "mount", "--bind", str(host.names), "/etc/hosts")
        self._ip(host, "link", "set", "lo", "up")
        return host

    def _ip(self, host: Host, *words: str) -> None:
        self._run(host, "ip", *words)

    def _run(self, host: Host, *words: str) -> None:
        subprocess.run(host.command(words), check=True, timeout=UP_S)


def move_to(host: Host) -> None:
    """Put this thread, and those that it makes from now on, on the network of `host`."""
    file = os.open(f"/proc/{host.holder.pid}/ns/net", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        if libc.setns(file, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(file)
