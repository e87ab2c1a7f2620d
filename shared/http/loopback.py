"""The mode without keys: for this machine only."""

import ipaddress
from typing import Literal

from fastapi import Request

from shared.errors import Unauthorized, UserError

Auth = Literal["keys", "loopback"]
"""`keys`: every call needs one. `loopback`: none does, and only this machine can call."""


def check_host(auth: Auth, host: str) -> None:
    """UserError where a service without keys would listen for other machines."""
    if auth == "loopback" and not _is_loopback(host):
        raise UserError(f"without keys only this machine may call: listen on 127.0.0.1 and not on {host}, or use keys")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _names_this_machine(host: str) -> bool:
    """Not where a domain was made to resolve to this machine, so that a site's script passes for its own origin."""
    return ("." not in host and ":" not in host) or _is_loopback(host)


def refuse_strangers(request: Request) -> None:
    """Unauthorized: without keys, a proxy would let everyone in, and a browser on this machine any site's script."""
    headers = request.headers
    proxied = "forwarded" in headers or "x-forwarded-for" in headers
    foreign = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
    if proxied or foreign or not _names_this_machine(request.url.hostname or ""):
        raise Unauthorized(f"the {request.app.title} runs without keys: it answers no proxy and no other site")
