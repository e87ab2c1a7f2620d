"""The proxies of all three hosts, as real processes of Caddy: TLS for people, client certificates for hosts."""

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
from fastapi import FastAPI, Request

from shared.http.keys import new_key
from shared.http.ports import free_port
from sync_service import store
from sync_service.app import create_app
from sync_service.config import SyncConfig
from tests.integration.deploy.compose import DEPLOY
from tests.listening import listening
from tests.waiting import until

CADDY = DEPLOY / "caddy"
NAMES = {"control": "sync:8700", "planner": "planner:8701", "executor": "executor:8702"}
"""Each host, and what its proxy stands before."""
LEAVING = (
    ("planner", "sync", "8700"),
    ("planner", "executor", "8702"),
    ("executor", "sync", "8700"),
    ("control", "planner", "8701"),
    ("control", "executor", "8702"),
)
PORTS = re.compile(r"(?<=:)(4443|8443|8700|8701|8702|2020)\b")


@dataclass(frozen=True, slots=True)
class Hosts:
    """Where each host lets others in, and where the calls of its own servers leave it, by whom they ask."""

    people: str
    hosts: dict[str, str]
    leaving: dict[tuple[str, str], str]
    secrets: Path

    def client(self, host: str | None = None) -> httpx.AsyncClient:
        """One that trusts our authority, and shows the certificate of `host`."""
        context = ssl.create_default_context(cafile=str(self.secrets / "ca" / "ca.crt"))
        if host:
            folder = self.secrets / host
            context.load_cert_chain(folder / "host.crt", folder / "host.key")
        return httpx.AsyncClient(verify=context, timeout=30)


def at_home(name: str, folder: Path, secrets: Path, servers: dict[str, str], ports: dict[str, int]) -> None:
    """Write deploy/caddy into a new `folder`, with the secrets of one host; ports that are not given are free ones."""
    folder.mkdir()
    for file in CADDY.iterdir():
        text = file.read_text().replace("/run/secrets", str(secrets / name))
        for server, address in servers.items():
            text = text.replace(f"reverse_proxy {server}", f"reverse_proxy {address}")
            text = text.replace(f"from_hosts {server}", f"from_hosts {address}")
        text = PORTS.sub(lambda found: str(ports.setdefault(found[1], free_port())), text)
        (folder / file.name).write_text(text)


@asynccontextmanager
async def proxy(
    name: str, secrets: Path, folder: Path, servers: dict[str, str], addresses: dict[str, str]
) -> AsyncGenerator[dict[str, int]]:
    """Run the proxy of one host, at its own address of `addresses`; yields its ports by those that the files name."""
    ports = {"8443": int(addresses[name].rpartition(":")[2])}
    at_home(name, folder, secrets, servers, ports)
    others = {f"TANDEM_{host.upper().replace('CONTROL', 'SYNC')}_AT": at for host, at in addresses.items()}
    command = [Path(sys.executable).parent / "caddy", "run", "--adapter", "caddyfile", "--config"]
    environment = {"HOME": str(folder), "TANDEM_LEAVE_BY": "127.0.0.1", **others}
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, folder / f"{name}.Caddyfile", stderr=log, env=environment
        )
        try:
            await until(lambda: healthy(ports["2020"]))
            yield ports
        finally:
            process.terminate()
            await process.wait()


def role_server(name: str) -> FastAPI:
    """One that says who it is, and under which name it was asked."""
    app = FastAPI()

    @app.get("/readyz")
    async def readyz(request: Request) -> list[str]:
        return [name, request.headers["host"]]

    return app


async def healthy(port: int) -> bool:
    async with httpx.AsyncClient() as http:
        try:
            return (await http.get(f"http://127.0.0.1:{port}/")).is_success
        except httpx.TransportError:
            return False


@pytest.fixture
async def hosts(sync_config: SyncConfig, made: Path, tmp_path: Path) -> AsyncGenerator[tuple[Hosts, str]]:
    """The sync service with keys and what answers as the role servers, each behind its host's proxy; a viewer's key."""
    app = create_app(sync_config.model_copy(update={"auth": "keys"}))
    addresses = {host: f"127.0.0.1:{free_port()}" for host in NAMES}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(LifespanManager(app))
        text, key = new_key("viewer")
        await app.state.service.database.transaction(lambda connection: store.keys.insert(connection, [key]))
        await app.state.browser_ring.refresh()
        ports = {}
        for name, server in NAMES.items():
            url = await stack.enter_async_context(listening(app if name == "control" else role_server(name)))
            behind = proxy(name, made, tmp_path / name, {server: url.removeprefix("http://")}, addresses)
            ports[name] = await stack.enter_async_context(behind)
        entries = {name: f"https://{address}" for name, address in addresses.items()}
        exits = {(name, asked): f"http://127.0.0.1:{ports[name][port]}" for name, asked, port in LEAVING}
        yield Hosts(f"https://localhost:{ports['control']['4443']}", entries, exits, made), text


@pytest.mark.parametrize("host", ["planner", "executor"])
async def test_a_call_goes_to_the_sync_service_under_both_certificates(hosts: tuple[Hosts, str], host: str):
    places, key = hosts
    async with httpx.AsyncClient(timeout=30) as http:
        url = places.leaving[host, "sync"]
        answer = await http.get(f"{url}/v1/runs", headers={"authorization": f"Bearer {key}"})
        assert (answer.status_code, answer.json()["items"]) == (200, [])
        assert (await http.get(f"{url}/v1/runs")).status_code == 401


async def test_role_servers_are_found_by_the_hosts_that_call_them_and_by_people(hosts: tuple[Hosts, str]):
    places, _ = hosts
    async with httpx.AsyncClient(timeout=30) as http:
        for host, asked in (("planner", "executor"), ("control", "executor"), ("control", "planner")):
            assert (await http.get(f"{places.leaving[host, asked]}/readyz")).json() == [asked, asked]
    async with places.client() as http:
        for role in ("planner", "executor"):
            assert (await http.get(f"{places.people}/servers/{role}/readyz")).json() == [role, role]


@pytest.mark.parametrize("host", NAMES)
async def test_who_shows_no_certificate_of_ours_does_not_get_in(hosts: tuple[Hosts, str], host: str):
    places, _ = hosts
    name = NAMES[host].partition(":")[0]
    asked = {"headers": {"host": name}, "extensions": {"sni_hostname": name}}
    async with places.client() as http:
        with pytest.raises((httpx.TransportError, ssl.SSLError)):
            await http.get(f"{places.hosts[host]}/readyz", **asked)
    async with places.client("executor") as http:
        assert (await http.get(f"{places.hosts[host]}/readyz", **asked)).status_code == 200


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
