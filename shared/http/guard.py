"""Who may call what. Each route of the three apps declares it, `dependencies=[READER]`; `guarded` refuses one without.

A key opens a route if its role is among the route's, and if the run that it is bound to is the run of the request: of
the path here, of the body in `body.py`, of a thing that is named by its id alone by `within` in the route. Likewise a
trainer's key acts as no other `{role}`. The key that acts is `request.state.key`; None where the route is open, or
where the service runs in the loopback mode without keys.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from fastapi import Depends, FastAPI, Request
from fastapi.routing import RouteContext, iter_route_contexts
from pydantic import BaseModel

from shared.errors import Forbidden, Unauthorized
from shared.http.keys import Key
from shared.http.loopback import refuse_strangers
from shared.http.target import check_target
from shared.schemas.base import ROLES, KeyRole


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
        check_target(request)
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
            refuse_strangers(request)
            return None
        key = self.identify(request)
        if key.role not in access.roles:
            raise Forbidden(f"a key of role {key.role} may not do this, only {' or '.join(access.roles)}")
        for run in (self._run, request.path_params.get("run")):
            _check_run(key, run)
        _check_role(key, request.path_params.get("role"))
        return key

    def identify(self, request: Request) -> Key:
        """The live key that the request comes with."""
        assert self._ring is not None
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthorized(f"the {request.app.title} needs a key: Authorization: Bearer tandem_...")
        key = self._ring.find(text.strip())
        if key is None:
            raise Unauthorized(f"the {request.app.title} knows no such key, or it is revoked")
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


def revoked(request: Request) -> bool:
    """Whether the acting key is live no more; for an answer that lasts."""
    if acting(request) is None:
        return False
    guard: Guard = request.app.state.guard
    try:
        guard.identify(request)
    except Unauthorized:
        return True
    return False


def bound_run(request: Request) -> str | None:
    """The one run that the acting key is bound to, if it is."""
    key = acting(request)
    return key.run if key else None


def _check_run(key: Key, run: str | None) -> None:
    if key.run is not None and run is not None and run != key.run:
        raise Forbidden(f"this key is bound to run {key.run}")


def _check_role(key: Key, role: str | None) -> None:
    if key.role in ROLES and role is not None and role != key.role:
        raise Forbidden(f"a key of role {key.role} may not act as another role")


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
