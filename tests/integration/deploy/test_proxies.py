"""The proxies of two hosts, as real processes of Caddy: TLS for people, client certificates for hosts."""

import asyncio
import re
import ssl
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from asgi_lifespan import LifespanManager

from shared.http.keys import new_key
from sync_service import store
from sync_service.app import create_app
from sync_service.config import SyncConfig
from sync_service.embedded.child import free_port
from tests.integration.deploy.compose import DEPLOY
from tests.listening import listening
from tests.waiting import until

CADDY = DEPLOY / "caddy"
PORTS = re.compile(r"(?<=:)(4443|8443|8700|8701|8702|2020)\b")


@dataclass(frozen=True, slots=True)
class Hosts:
    """Where the control host is for people and for hosts, and where calls leave the planner's host; the secrets."""

    people: str
    hosts: str
    leaving: str
    secrets: Path

    def client(self, host: str | None = None) -> httpx.AsyncClient:
        """One that trusts our authority, and shows the certificate of `host`."""
        context = ssl.create_default_context(cafile=str(self.secrets / "ca" / "ca.crt"))
        if host:
            folder = self.secrets / host
            context.load_cert_chain(folder / "host.crt", folder / "host.key")
        return httpx.AsyncClient(verify=context, timeout=30)


def at_home(name: str, folder: Path, secrets: Path, servers: dict[str, str]) -> dict[str, int]:
    """Write deploy/caddy into a new `folder`, with the secrets of one host, on free ports, which are answered."""
    folder.mkdir()
    ports: dict[str, int] = {}
    for file in CADDY.iterdir():
        text = file.read_text().replace("/run/secrets", str(secrets / name))
        for server, address in servers.items():
            text = text.replace(f"reverse_proxy {server}", f"reverse_proxy {address}")
            text = text.replace(f"from_hosts {server}", f"from_hosts {address}")
        text = PORTS.sub(lambda found: str(ports.setdefault(found[1], free_port())), text)
        (folder / file.name).write_text(text)
    return ports


@asynccontextmanager
async def proxy(
    name: str, secrets: Path, folder: Path, servers: dict[str, str], **addresses: str
) -> AsyncGenerator[dict[str, int]]:
    """Run the proxy of one host; yields its ports by those that the files name."""
    ports = at_home(name, folder, secrets, servers)
    command = [Path(sys.executable).parent / "caddy", "run", "--adapter", "caddyfile", "--config"]
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, folder / f"{name}.Caddyfile", stderr=log, env={"HOME": str(folder), **addresses}
        )
        try:
            await until(lambda: healthy(ports["2020"]))
            yield ports
        finally:
            process.terminate()
            await process.wait()


async def healthy(port: int) -> bool:
    async with httpx.AsyncClient() as http:
        try:
            return (await http.get(f"http://127.0.0.1:{port}/")).is_success
        except httpx.TransportError:
            return False


@pytest.fixture
async def hosts(sync_config: SyncConfig, made: Path, tmp_path: Path) -> AsyncGenerator[tuple[Hosts, str]]:
    """The sync service with keys, behind the proxy of the control host, and that of the planner's; a viewer's key."""
    app = create_app(sync_config.model_copy(update={"auth": "keys"}))
    nowhere = {"TANDEM_PLANNER_AT": "127.0.0.1:1", "TANDEM_EXECUTOR_AT": "127.0.0.1:1"}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(LifespanManager(app))
        text, key = new_key("viewer")
        await app.state.service.database.transaction(lambda connection: store.keys.insert(connection, [key]))
        await app.state.browser_ring.refresh()
        url = await stack.enter_async_context(listening(app))
        servers = {"sync:8700": url.removeprefix("http://")}
        control = await stack.enter_async_context(proxy("control", made, tmp_path / "control", servers, **nowhere))
        at = nowhere | {"TANDEM_SYNC_AT": f"127.0.0.1:{control['8443']}", "TANDEM_LEAVE_BY": "127.0.0.1"}
        planner = await stack.enter_async_context(proxy("planner", made, tmp_path / "planner", {}, **at))
        people, others = f"https://localhost:{control['4443']}", f"https://localhost:{control['8443']}"
        yield Hosts(people, others, f"http://127.0.0.1:{planner['8700']}", made), text


async def test_a_call_goes_from_one_host_to_the_other_under_both_certificates(hosts: tuple[Hosts, str]):
    places, key = hosts
    async with httpx.AsyncClient(timeout=30) as http:
        answer = await http.get(f"{places.leaving}/v1/runs", headers={"authorization": f"Bearer {key}"})
        assert (answer.status_code, answer.json()["items"]) == (200, [])
        assert (await http.get(f"{places.leaving}/v1/runs")).status_code == 401


async def test_who_shows_no_certificate_of_ours_does_not_get_in(hosts: tuple[Hosts, str]):
    places, _ = hosts
    async with places.client() as http:
        with pytest.raises((httpx.TransportError, ssl.SSLError)):
            await http.get(f"{places.hosts}/healthz")
    async with places.client("executor") as http:
        assert (await http.get(f"{places.hosts}/healthz")).status_code == 200


async def test_people_come_by_tls_and_only_by_it(hosts: tuple[Hosts, str]):
    places, _ = hosts
    async with places.client() as http:
        answer = await http.get(f"{places.people}/healthz")
        assert (answer.status_code, answer.headers["strict-transport-security"]) == (200, "max-age=31536000")
        assert (await http.get(places.people.replace("https", "http"))).status_code == 400
    async with httpx.AsyncClient() as stranger:
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await stranger.get(places.people)


async def test_the_pages_work_behind_it_with_a_cookie_for_tls_alone(hosts: tuple[Hosts, str]):
    places, key = hosts
    async with places.client() as http:
        answer = await http.post(f"{places.people}/login", data={"key": key}, headers={"origin": places.people})
        assert answer.status_code == 303
        assert "Secure" in answer.headers["set-cookie"]
        assert (await http.get(f"{places.people}/")).status_code == 200
