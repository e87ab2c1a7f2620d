"""Who may call what. Each route of the three apps declares it, `dependencies=[READER]`; `guarded` refuses one without.

A key opens a route if its role is among the route's, and if the run that it is bound to is the run of the request: of
the path here, of the body in `body.py`, of a thing that is named by its id alone by `within` in the route. Likewise a
trainer's key acts as no other `{role}`. The key that acts is `request.state.key`; None where the route is open, or
where the service runs in the loopback mode without keys.
"""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol
from urllib.parse import unquote_to_bytes

from fastapi import Depends, FastAPI, Request
from fastapi.routing import RouteContext, iter_route_contexts
from pydantic import BaseModel

from shared.errors import Forbidden, InvalidInput, Unauthorized, UserError
from shared.http.keys import Key
from shared.schemas.base import ROLES, KeyRole

Auth = Literal["keys", "loopback"]
"""`keys`: every call needs one. `loopback`: none does, and only this machine can call."""


class Ring(Protocol):
    """Where live keys are found."""

    def find(self, text: str) -> Key | None:
        """The live key that `text` is."""
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """The roles that a route is for; none: it is open. A dependency, so that it runs before the request is read."""

    roles: tuple[KeyRole, ...]

    async def __call__(self, request: Request) -> None:
        """Unauthorized, Forbidden; InvalidInput for a path or query that is no text."""
        _check_target(request)
        guard: Guard = request.app.state.guard
        request.state.key = guard.admit(request, self) if self.roles else None


OPEN = Depends(Access(()))
PLANNER = Depends(Access(("planner",)))
EXECUTOR = Depends(Access(("executor",)))
TRAINER = Depends(Access(ROLES))
OPERATOR = Depends(Access(("operator",)))
VIEWER = Depends(Access(("viewer", "operator")))
READER = Depends(Access(("viewer", "operator", *ROLES)))
"""A role reads its own run; a viewer's and an operator's key read every run, or the one that they are bound to."""
SCRAPER = Depends(Access(("metrics", "viewer", "operator")))


class Guard:
    """Checks the key of each request; `ring` None is the loopback mode. `run`: the only one that this server is for."""

    def __init__(self, ring: Ring | None, run: str | None = None) -> None:
        self._ring = ring
        self._run = run

    def admit(self, request: Request, access: Access) -> Key | None:
        """The key of a request that may go on."""
        if self._ring is None:
            _refuse_proxied(request)
            return None
        key = _identify(request, self._ring)
        if key.role not in access.roles:
            raise Forbidden(f"a key of role {key.role} may not do this, only {' or '.join(access.roles)}")
        for run in (self._run, request.path_params.get("run")):
            _check_run(key, run)
        _check_role(key, request.path_params.get("role"))
        return key


def within(request: Request, run: str) -> None:
    """Forbidden where the acting key is bound to another run than that of the thing that the request is about."""
    if key := acting(request):
        _check_run(key, run)


def admit_body(request: Request, body: BaseModel) -> None:
    """Forbidden where the body says that it is of another run, or of another trainer, than the acting key."""
    if key := acting(request):
        _check_run(key, getattr(body, "run", None))
        _check_role(key, getattr(body, "role", None))


def acting(request: Request) -> Key | None:
    """The key that acts."""
    return getattr(request.state, "key", None)


def bound_run(request: Request) -> str | None:
    """The one run that the acting key is bound to, if it is."""
    key = acting(request)
    return key.run if key else None


def _identify(request: Request, ring: Ring) -> Key:
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized(f"the {request.app.title} needs a key: Authorization: Bearer tandem_...")
    key = ring.find(text.strip())
    if key is None:
        raise Unauthorized(f"the {request.app.title} knows no such key, or it is revoked")
    return key


def _check_run(key: Key, run: str | None) -> None:
    if key.run is not None and run is not None and run != key.run:
        raise Forbidden(f"this key is bound to run {key.run}")


def _check_role(key: Key, role: str | None) -> None:
    if key.role in ROLES and role is not None and role != key.role:
        raise Forbidden(f"a key of role {key.role} may not act as another role")


def _refuse_proxied(request: Request) -> None:
    """A proxy on this machine would let everyone in."""
    if "forwarded" in request.headers or "x-forwarded-for" in request.headers:
        raise Unauthorized(f"the {request.app.title} runs without keys, for this machine only: no proxy before it")


def _check_target(request: Request) -> None:
    """A path or query is UTF-8 without NUL, once its escapes are resolved."""
    target = request.scope.get("raw_path", b"") + b"?" + request.scope["query_string"]
    if b"%" not in target:
        return
    try:
        text = unquote_to_bytes(target).decode()
    except UnicodeDecodeError:
        raise InvalidInput("the path or the query is no UTF-8") from None
    if "\0" in text:
        raise InvalidInput("the path or the query holds a NUL")


def check_host(auth: Auth, host: str) -> None:
    """UserError where a service without keys would listen for other machines."""
    if auth == "loopback" and not _is_loopback(host):
        raise UserError(f"without keys only this machine may call: listen on 127.0.0.1 and not on {host}, or use keys")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def guarded(app: FastAPI, guard: Guard) -> None:
    """Put `guard` before every route of `app`; call it last. ValueError names a route that declares no access."""
    app.state.guard = guard
    for route, access in declared(app):
        if access is None:
            raise ValueError(f"{route.path} declares no access")


def declared(app: FastAPI) -> Iterator[tuple[RouteContext, Access | None]]:
    """Every route of `app` with what it declares."""
    for route in iter_route_contexts(app.routes):
        depends = getattr(route, "dependencies", ())
        yield route, next((d.dependency for d in depends if isinstance(d.dependency, Access)), None)
