"""The text of a trajectory, read from the server that owns it when somebody looks, and never stored.

What a worker registers as its address decides whom this service asks, so little is trusted: only http and https, no
name or password, no address that is of one link only (where clouds keep their credentials) and no name that leads to
one; the path is ours, redirects are not followed, time and size are bounded, and an answer that is not that trajectory
is not shown. The key that is sent along should open nothing else: one made for this, whose hash only the role servers
have.
"""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from aiohttp import ClientError, ClientSession, DummyCookieJar, TCPConnector, ThreadedResolver
from aiohttp.abc import ResolveResult
from httpx_aiohttp import AiohttpTransport
from pydantic import ValidationError

from shared.errors import NotFound, Unavailable, UserError
from shared.schemas import protocol
from shared.schemas.base import Role
from shared.schemas.invocation import TrajectoryView

ANSWER_S = 4.0
"""How long one server may take."""
MOST_BYTES = 2 * 1024 * 1024
AT_ONCE = 8
"""Requests of this process on their way; the next one waits, within its own time."""
TRIED = 3
"""Workers of one role that are asked in turn."""


class Owners:
    """Asks the workers of a role for a text."""

    def __init__(self, key: str | None, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._transport = transport or AiohttpTransport(client=_session)
        self._headers = {protocol.HEADER: str(protocol.PROTOCOL), "accept-encoding": "identity"}
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        self._places = asyncio.Semaphore(AT_ONCE)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def read(self, urls: Sequence[str], run: str, at: Role, id: str, role: Role) -> TrajectoryView:
        """The trajectory, from the first of `urls` that has it. Unavailable says why none could be asked.

        `at`: whose servers these are; `role`: what the trajectory's agent did, which one policy may do for itself.
        """
        faults: list[str] = []
        for url in urls[:TRIED]:
            try:
                view = await self._ask(url, at, id)
            except (NotFound, Unavailable) as error:
                faults.append(error.detail)
            else:
                if (view.id, view.run, view.role) == (id, run, role):
                    return view
                faults.append(f"the {at} server answers with another trajectory")
        raise Unavailable(faults[0] if faults else f"no {at} server has said where it is")

    async def _ask(self, url: str, role: Role, id: str) -> TrajectoryView:
        base = checked(url)
        try:
            async with asyncio.timeout(ANSWER_S), self._places:
                raw = await self._send(f"{base}/v1/trajectories/{id}", role)
        except TimeoutError:
            raise Unavailable(f"the {role} server did not answer within {ANSWER_S:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, ClientError, OSError, ValueError):  # ValueError: a name that is none
            raise Unavailable(f"the {role} server cannot be reached, or does not answer as ours do") from None
        try:
            return TrajectoryView.model_validate_json(raw)
        except ValidationError:
            raise Unavailable(f"what answers at the {role} server's address is no server of ours") from None

    async def _send(self, url: str, role: Role) -> bytes:
        """The body of a success, read no further than MOST_BYTES."""
        response = await self._transport.handle_async_request(httpx.Request("GET", url, headers=self._headers))
        try:
            if response.status_code == httpx.codes.NOT_FOUND:
                raise NotFound(f"the {role} server does not have it any more")
            if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
                raise Unavailable(f"the {role} server refuses this service's key: see text_key_file")
            if response.status_code != httpx.codes.OK or response.headers.get("content-encoding"):
                raise Unavailable(f"the {role} server answers with HTTP {response.status_code}")
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise Unavailable(f"the text is larger than {MOST_BYTES // 2**20} MiB")
            return bytes(body)
        finally:
            await response.aclose()


def read_key(file: Path) -> str:
    """The key in the file. UserError where there is none, or what it holds cannot be sent."""
    try:
        key = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UserError(f"text_key_file {file} cannot be read: {reason}") from None
    if not key or not (key.isascii() and key.isprintable()):
        raise UserError(f"text_key_file {file} holds no key")
    return key


def checked(url: str) -> str:
    """The address without its last slash. Unavailable for one that nobody is asked at."""
    host = ""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        plain = parts.scheme in ("http", "https") and host and not parts.query and not parts.fragment
        plain = plain and parts.username is None and parts.password is None and parts.port != 0
    except ValueError:  # a port or a host that is none
        plain = False
    if not plain or not url.isascii() or not url.isprintable() or " " in url or _of_one_link(host):
        raise Unavailable("the server's address is none that this service asks")
    return url.rstrip("/")


class Names(ThreadedResolver):
    """Looks names up; one that leads to an address that nobody is asked at leads nowhere."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of `host`. OSError where one of them is refused."""
        found = await super().resolve(host, port, family)
        if any(_of_one_link(one["host"]) for one in found):
            raise OSError(f"{host} is an address of one link")
        return found


def _session() -> ClientSession:
    connector = TCPConnector(resolver=Names(), ssl=httpx.create_ssl_context(), limit=AT_ONCE)
    return ClientSession(connector=connector, cookie_jar=DummyCookieJar())


def _of_one_link(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_link_local or address.is_multicast or address.is_unspecified
