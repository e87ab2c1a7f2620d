"""How a page is made: its template, its headers, and errors as pages."""

from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined

from shared.errors import InvalidInput, TandemError, Unauthorized
from shared.http.body import faults
from shared.http.guard import acting
from sync_service.dashboard import drawing, texts
from sync_service.dashboard.access import READS, has_keys, may_act
from sync_service.dashboard.navigation import tabs
from sync_service.dashboard.static import address

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # with no-referrer a browser sends `Origin: null` along with our own forms
    "cross-origin-opener-policy": "same-origin",
}

LONGEST_NEXT = 200
"""Characters of the address that one comes back to after a login."""


@cache
def environment() -> Environment:
    """The templates; every value is escaped, and a name that a page forgot to give is an error."""
    made = Environment(
        loader=PackageLoader("sync_service.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["static"] = address
    for module in (texts, drawing):
        made.filters |= {name: getattr(module, name) for name in module.FILTERS}
    return made


def render(template: str, **context: Any) -> str:
    """A template as text, for a fragment; `page` is for a whole page."""
    return environment().get_template(template).render(**context)


def page(request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A page. Templates know `key`, `acts` (an operator looks), `has_keys`, `run` and `tabs`, beside `context`."""
    run = context.pop("run", request.path_params.get("run"))
    known = {"key": acting(request), "acts": may_act(request), "has_keys": has_keys(request), "run": run}
    here = request.url.path
    text = render(template, **known, here=here, tabs=tabs(run, here) if run else (), **context)
    return HTMLResponse(text, status, headers={"cache-control": "no-store"})


def see_other(path: str) -> RedirectResponse:
    """What follows a form: the page to look at next."""
    return RedirectResponse(path, 303)


class PageRoute(APIRoute):
    """A route of the dashboard: `APIRouter(route_class=PageRoute)`. Its errors are pages, its headers are set."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's own handler, between the two."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                response = await handler(request)
            except RequestValidationError as error:
                response = _fault(request, InvalidInput(faults(error)))
            except TandemError as error:
                response = _fault(request, error)
            response.headers.update(HEADERS)
            return response

        return handle


def _fault(request: Request, error: TandemError) -> Response:
    """The page of an error; a browser that is not logged in goes to the login, and comes back."""
    if isinstance(error, Unauthorized) and has_keys(request) and request.method in READS:
        here, query = request.url.path, request.url.query
        whole = f"{here}?{query}" if query and len(here) + len(query) < LONGEST_NEXT else here
        return see_other(f"/login?next={quote(whole)}")
    return page(request, "error.html", error.status, error=error, run="")
