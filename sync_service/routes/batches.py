"""Requests of many items: each has its own status, and a malformed one does not spoil the others."""

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import to_json

from shared.errors import Forbidden, InvalidInput, TandemError
from shared.http.body import faults, read_bytes
from shared.http.guard import admit_body, bound_run
from shared.ids import Id
from shared.schemas.rollout import Accepted, GroupView

B = TypeVar("B", bound=BaseModel)
I = TypeVar("I", bound=BaseModel)  # noqa: E741 - an item
MAX_ITEMS = 512
_ID: TypeAdapter[str] = TypeAdapter(Id)

Parsed = list[I | tuple[str, TandemError]]


def read_batch(batch: type[B], item: type[I]) -> Callable[[Request], Any]:
    """A dependency that answers the items of the body: each valid, and of a run that the key may write to, or its id
    with what is wrong with it."""

    async def read(request: Request) -> Parsed:
        raw = await read_bytes(request)
        request.state.body_bytes = len(raw)
        try:
            items = list(batch.model_validate_json(raw).items)  # ty: ignore[missing-attribute]
        except ValidationError as error:
            items = _one_by_one(raw, item, error)
        if bound_run(request) is None:
            return items
        return [part if isinstance(part, tuple) else _admitted(request, part) for part in items]

    return read


def _admitted(request: Request, part: Any) -> Any:
    try:
        admit_body(request, part.body)
    except Forbidden as error:
        return part.id, error
    return part


def _one_by_one(raw: bytes, item: type[I], whole: ValidationError) -> Parsed:
    """Something is wrong: with the items it is in, if the body as such is a list of items with ids."""
    refused = InvalidInput(faults(whole))
    try:
        body = json.loads(raw.decode())  # bytes in UTF-16 would be read as such
    except (ValueError, RecursionError):
        raise refused from None
    items = body.get("items") if isinstance(body, dict) and set(body) == {"items"} else None
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_ITEMS:
        raise refused
    return [_one(part, item, refused) for part in items]


def _one(part: Any, item: type[I], refused: InvalidInput) -> I | tuple[str, InvalidInput]:
    try:
        return item.model_validate_json(json.dumps(part))
    except ValidationError as error:
        try:
            id = _ID.validate_python(part.get("id") if isinstance(part, dict) else None)
        except ValidationError:
            raise refused from None
        return id, InvalidInput(faults(error))


def results(parsed: Sequence[Any], outcomes: Sequence[Accepted | GroupView | TandemError]) -> Response:
    """A BatchResult or a GroupBatchResult: a status for each item, in the order of the request.

    `outcomes` are those of the valid ones. It is written as it is, without a model for each item, which would cost as
    much as judging it.
    """
    judged = iter(outcomes)
    items = [_result(*part) if isinstance(part, tuple) else _result(part.id, next(judged)) for part in parsed]
    return Response(to_json({"items": items}), media_type="application/json")


def _result(id: str, outcome: Accepted | GroupView | TandemError) -> dict[str, Any]:
    """An ItemResult or a GroupResult without its nulls."""
    if isinstance(outcome, TandemError):
        return {"id": id, "status": outcome.status, "problem": outcome.problem()}
    if isinstance(outcome, GroupView):
        return {"id": id, "status": 200, "group": outcome}
    return {"id": id, "status": 200, "accepted": outcome.accepted}
