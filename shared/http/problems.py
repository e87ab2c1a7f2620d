"""One handler maps the error tree to problem+json (RFC 9457). No answer repeats a value of the request."""

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from shared.errors import RETRY_LATER, InvalidInput, MethodNotAllowed, NotFound, TandemError, Unauthorized
from shared.http.body import faults

log = structlog.get_logger()

NO_SUCH_CALL = "there is no such call"
"""What a server of ours says to a call of another one."""


def problem(error: TandemError) -> JSONResponse:
    """The answer that stands for `error`."""
    headers = {"Retry-After": "1"} if error.retryable and error.status in RETRY_LATER else {}
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error.problem(), error.status, headers, media_type="application/problem+json")


def install_problems(app: FastAPI) -> None:
    """Answer every error of `app` as problem+json."""

    @app.exception_handler(TandemError)
    async def _tandem(_: Request, error: TandemError) -> JSONResponse:
        return problem(error)

    @app.exception_handler(RequestValidationError)
    async def _validation(_: Request, error: RequestValidationError) -> JSONResponse:
        return problem(InvalidInput(faults(error)))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        answer = problem(_routing(request, error))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def _unexpected(request: Request, error: Exception) -> JSONResponse:
        id = getattr(request.state, "request_id", None)
        log.error("unexpected", method=request.method, path=request.url.path, request_id=id, exc_info=error)
        answer = problem(TandemError("an unexpected error; the service's log has it", request_id=id))
        answer.headers["x-request-id"] = str(id)  # this handler answers outside the middleware that names requests
        return answer


def _routing(request: Request, error: HTTPException) -> TandemError:
    """Ours for what the framework raises: no such path, or no such method there."""
    if error.status_code == 404:
        return NotFound(NO_SUCH_CALL)
    if error.status_code == 405:
        return MethodNotAllowed(f"this path has no {request.method}")
    return InvalidInput(str(error.detail))
