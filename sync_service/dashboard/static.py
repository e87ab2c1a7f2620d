"""Stylesheets and scripts: a fixed set of files, each under an address that names its content."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import FileResponse
from starlette.responses import Response

from shared.errors import NotFound
from sync_service.dashboard.access import EVERYBODY

FOLDER = Path(__file__).parent / "static"
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
"""What is served; texts of licences lie beside them."""
FOR_GOOD = "public, max-age=31536000, immutable"


@cache
def _files() -> dict[str, tuple[Path, str]]:
    """Each file by its name below `static/`, with the start of its SHA-256."""
    found = {path.relative_to(FOLDER).as_posix(): path for path in FOLDER.rglob("*") if path.suffix in TYPES}
    return {name: (path, hashlib.sha256(path.read_bytes()).hexdigest()[:12]) for name, path in found.items()}


def address(name: str) -> str:
    """Where a page finds `name`; another address when its content is another. KeyError where there is no such file."""
    return f"/static/{name}?v={_files()[name][1]}"


def static_routes(router: APIRouter) -> None:
    """Put the files on `router`."""

    @router.get("/static/{name:path}", dependencies=[EVERYBODY])
    async def static(name: str, v: Annotated[str, Query(max_length=64)] = "") -> Response:
        if name not in _files():
            raise NotFound("there is no such file")
        path, version = _files()[name]
        keep = FOR_GOOD if v == version else "no-cache"
        return FileResponse(path, media_type=TYPES[path.suffix], headers={"cache-control": keep})
