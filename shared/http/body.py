"""Strict JSON bodies. Pydantic parses the bytes itself, so NaN, 1e400, true-for-1.0 and lone surrogates are refused.

What is bounded before it is parsed: the bytes, and the values in them, as a byte may become a hundred in memory. The
parser itself goes no deeper than 200 levels.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect

from shared.errors import BodyTooLarge, InvalidInput
from shared.http.guard import admit_body

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_VALUES = 200_000
"""More than a body of ids can hold within its bytes; commas are counted, those in texts too."""
FAULTS = 20
"""How many faults of one body are named."""

M = TypeVar("M", bound=BaseModel)


async def read_bytes(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """The body, read no further than `limit` bytes; BodyTooLarge beyond it, or with more than MAX_VALUES values."""
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise BodyTooLarge(f"the body is larger than {limit} bytes")
            chunks.append(chunk)
    except ClientDisconnect:  # nobody hears the answer: it only ends the request
        raise InvalidInput("the caller went away within the body") from None
    raw = b"".join(chunks)
    if raw.count(b",") >= MAX_VALUES:
        raise BodyTooLarge(f"the body holds more than {MAX_VALUES} values")
    return raw


def json_body(model: type[M], limit: int = MAX_BODY_BYTES) -> Callable[[Request], Awaitable[M]]:
    """A FastAPI dependency that reads, bounds and validates the body as `model`, of a run that the key may write to."""

    async def read(request: Request) -> M:
        raw = await read_bytes(request, limit)
        request.state.body_bytes = len(raw)
        try:
            body = model.model_validate_json(raw)
        except ValidationError as error:
            raise InvalidInput(faults(error)) from None
        admit_body(request, body)
        return body

    return read


def faults(error: ValidationError | RequestValidationError) -> str:
    """The faults that pydantic found, in one line, by field, without echoing a value."""
    named = [f"{'.'.join(map(str, fault['loc']))[:100] or 'body'}: {fault['msg'][:200]}" for fault in error.errors()]
    return "; ".join(named[:FAULTS])


def openapi_body(model: type[BaseModel]) -> dict:
    """The `openapi_extra` of a route that reads its body through `json_body`."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": model.model_json_schema()}}}}
