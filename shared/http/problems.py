"""One handler maps the error tree to problem+json (RFC 9457)."""

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from shared.errors import InvalidInput, NotFound, TandemError

log = structlog.get_logger()


def problem(error: TandemError) -> JSONResponse:
    """The answer that stands for `error`."""
    headers = {"Retry-After": "1"} if error.retryable and error.status in (429, 503) else {}
    return JSONResponse(error.problem(), error.status, headers, media_type="application/problem+json")


def install_problems(app: FastAPI) -> None:
    """Answer every error of `app` as problem+json."""

    @app.exception_handler(TandemError)
    async def _tandem(_: Request, error: TandemError) -> JSONResponse:
        return problem(error)

    @app.exception_handler(RequestValidationError)
    async def _validation(_: Request, error: RequestValidationError) -> JSONResponse:
        places = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        return problem(InvalidInput("; ".join(places)[:2000]))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 404:
            return problem(NotFound(f"there is no {request.method} {request.url.path}"))
        other = TandemError(str(error.detail))
        return JSONResponse(
            other.problem() | {"status": error.status_code}, error.status_code, media_type="application/problem+json"
        )

    @app.exception_handler(Exception)
    async def _unexpected(request: Request, error: Exception) -> JSONResponse:
        log.error("unexpected", method=request.method, path=request.url.path, exc_info=error)
        return problem(TandemError("an unexpected error; the service's log has it"))
