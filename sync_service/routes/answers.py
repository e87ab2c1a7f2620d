"""Answers, pages and cursors."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import Query, Response
from pydantic import BaseModel

from shared.errors import InvalidInput
from shared.schemas.base import Page

M = TypeVar("M", bound=BaseModel)

Limit = Annotated[int, Query(ge=1, le=500)]
Cursor = Annotated[str | None, Query(max_length=400)]
PAGE = 200


def answer(model: BaseModel) -> Response:
    """The model as JSON, written by pydantic itself."""
    return Response(model.model_dump_json(), media_type="application/json")


def done() -> Response:
    """Nothing to say."""
    return Response(status_code=204)


def page(items: Sequence[M], limit: int, key: Callable[[M], tuple]) -> Response:
    """A page of what was read with `limit`; `key` is the place of an item in the order of the list."""
    following = _encode(key(items[-1])) if len(items) == limit else None
    return answer(Page(items=tuple(items), next=following))


def _encode(place: tuple) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def decode(cursor: str | None, start: tuple) -> tuple:
    """The place that `cursor` names, or `start` where there is none; InvalidInput where it is not one of ours."""
    if not cursor:
        return start
    try:
        place = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        "".join(map(str, place)).encode()  # a lone surrogate, written as an escape, is no text
    except (binascii.Error, TypeError, ValueError):
        place = None
    shape = [type(part) for part in start]
    if not isinstance(place, list) or [type(part) for part in place] != shape or "\0" in "".join(map(str, place)):
        raise InvalidInput("cursor: this is no cursor of this list")
    return tuple(place)
