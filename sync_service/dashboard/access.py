"""Who may see a page, and who may act on it. A session is a browser's; it opens pages, and never a call of `/v1`.

Routes declare it as all others do, `dependencies=[VIEW]`, so the guard refuses a page that declares nothing.
"""

from dataclasses import dataclass

from fastapi import Depends, Request

from shared.errors import Forbidden, Unauthorized
from shared.http.guard import Access, acting, within
from shared.http.keys import Key
from shared.http.loopback import refuse_strangers
from shared.http.target import check_target
from sync_service.dashboard.sessions import Ring, unseal

COOKIE = "tandem_session"
READS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class PageAccess(Access):
    """Access by the session in a cookie; without keys (loopback) by being on this machine."""

    async def __call__(self, request: Request) -> None:
        """Unauthorized, Forbidden; a write must come from a page of this origin, whatever the browser sends along."""
        check_target(request)
        if request.method not in READS:
            check_origin(request)
        request.state.key = None
        if not has_keys(request):
            refuse_strangers(request)
        elif self.roles:
            request.state.key = self._session(request)
            if run := request.path_params.get("run"):
                within(request, run)

    def _session(self, request: Request) -> Key:
        key = session(request)
        if key is None:
            raise Unauthorized("Log in with a viewer's or an operator's key.")
        if key.role not in self.roles:
            raise Forbidden(f"a key of role {key.role} may not do this, only {' or '.join(self.roles)}")
        return key


EVERYBODY = Depends(PageAccess(()))
VIEW = Depends(PageAccess(("viewer", "operator")))
ACT = Depends(PageAccess(("operator",)))


def ring_of(request: Request) -> Ring | None:
    """The live keys; None where the service runs without any."""
    return request.app.state.browser_ring


def has_keys(request: Request) -> bool:
    """Whether there is a login at all."""
    return ring_of(request) is not None


def session(request: Request) -> Key | None:
    """The key that the browser has logged in with, if it is live still."""
    ring = ring_of(request)
    return unseal(ring, request.cookies.get(COOKIE, "")) if ring else None


def is_over(request: Request) -> bool:
    """Whether the session has ended since the request began; for an answer that lasts."""
    return acting(request) is not None and session(request) is None


def may_act(request: Request) -> bool:
    """Whether the page shows what an operator does."""
    key = acting(request)
    return key.role == "operator" if key else not has_keys(request)


def check_origin(request: Request) -> None:
    """Forbidden where a form was not sent by a page of ours; a browser that does not say where from is refused."""
    own = f"{request.url.scheme}://{request.headers.get('host', '')}"
    if request.headers.get("origin") != own:
        raise Forbidden("this form was not sent by a page of this service")
