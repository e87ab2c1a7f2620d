"""Strict JSON bodies. Pydantic parses the bytes itself, so NaN, 1e400, true-for-1.0 and lone surrogates are refused."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from shared.errors import BodyTooLarge, InvalidInput

MAX_BODY_BYTES = 4 * 1024 * 1024

M = TypeVar("M", bound=BaseModel)


async def read_bytes(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """The body, read no further than `limit` bytes; BodyTooLarge beyond it."""
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise BodyTooLarge(f"the body is larger than {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


def json_body(model: type[M], limit: int = MAX_BODY_BYTES) -> Callable[[Request], Awaitable[M]]:
    """A FastAPI dependency that reads, bounds and validates the body as `model`."""

    async def read(request: Request) -> M:
        raw = await read_bytes(request, limit)
        request.state.body_bytes = len(raw)
        try:
            return model.model_validate_json(raw)
        except ValidationError as error:
            raise InvalidInput(faults(error)) from None

    return read


def faults(error: ValidationError) -> str:
    """Every fault of `error` in one line, by field, without echoing the value."""
    return "; ".join(
        f"{'.'.join(map(str, e['loc'])) or 'body'}: {e['msg']}" for e in error.errors(include_input=False)
    )[:2000]


def openapi_body(model: type[BaseModel]) -> dict:
    """The `openapi_extra` of a route that reads its body through `json_body`."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": model.model_json_schema()}}}}
