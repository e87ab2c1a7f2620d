"""Login with a key, and logout."""

from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request, Response

from shared.errors import InvalidInput
from shared.http.body import read_bytes
from sync_service.dashboard.access import COOKIE, EVERYBODY, ring_of
from sync_service.dashboard.pages import LONGEST_NEXT, PageRoute, page, see_other
from sync_service.dashboard.sessions import LIFE_S, seal

router = APIRouter(route_class=PageRoute)

FORM_BYTES = 4096
FORM_FIELDS = 8
PAGES_FOR = ("viewer", "operator")
Next = Annotated[str, Query(max_length=LONGEST_NEXT)]


@router.get("/login", dependencies=[EVERYBODY])
async def login_page(request: Request, next: Next = "/") -> Response:
    """The form."""
    if ring_of(request) is None:
        return see_other("/")
    return page(request, "login.html", next=_own(next), problem=None)


@router.post("/login", dependencies=[EVERYBODY])
async def login(request: Request) -> Response:
    """A session for a viewer's or an operator's key. The key itself is not kept."""
    form = await read_form(request)
    ring, text = ring_of(request), form.get("key", "").strip()
    goes_to = _own(form.get("next", "/"))
    key = ring.find(text) if ring else None
    cookie = seal(ring, text) if ring and key else None
    if key is None or cookie is None:
        return page(request, "login.html", 401, next=goes_to, problem="There is no such key, or it is revoked.")
    if key.role not in PAGES_FOR:
        problem = f"This is a key of role {key.role}. Pages are for a viewer's or an operator's key."
        return page(request, "login.html", 403, next=goes_to, problem=problem)
    response = see_other(goes_to)
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, cookie, max_age=LIFE_S, path="/", secure=secure, httponly=True, samesite="strict")
    return response


@router.post("/logout", dependencies=[EVERYBODY])
async def logout(request: Request) -> Response:
    """The browser forgets its session."""
    response = see_other("/login")
    response.delete_cookie(COOKIE, path="/", secure=request.url.scheme == "https", httponly=True, samesite="strict")
    return response


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a small form; of one that came twice, the last."""
    raw = await read_bytes(request, FORM_BYTES)
    try:
        fields = parse_qs(raw.decode(), keep_blank_values=True, max_num_fields=FORM_FIELDS, errors="strict")
    except ValueError:
        raise InvalidInput("this is no form of a page of ours") from None
    if b"\0" in raw or b"%00" in raw:
        raise InvalidInput("a field of the form holds a NUL")
    return {name: values[-1] for name, values in fields.items()}


def _own(path: str) -> str:
    """`path` where it is one of this service, else the first page."""
    plain = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if plain else "/"
