"""The OpenAPI document of an app: what FastAPI says, and what it cannot know.

That is the schemas of the bodies, which routes read themselves; who may call what; and that every error is a problem.
"""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI

from shared.http.guard import declared

REF = "#/components/schemas/"
PROBLEM = {
    "title": "Problem",
    "description": "An error (RFC 9457).",
    "type": "object",
    "required": ["type", "title", "status", "detail", "retryable"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "retryable": {"type": "boolean"},
    },
}
ERROR = {
    "description": "A problem.",
    "content": {"application/problem+json": {"schema": {"$ref": f"{REF}Problem"}}},
}
KEY = {"type": "http", "scheme": "bearer", "description": "A role key: tandem_<id>_<secret>."}


def document(app: FastAPI) -> dict[str, Any]:
    """The document of `app`."""
    whole = app.openapi()
    components = whole.setdefault("components", {})
    schemas: dict[str, Any] = components.setdefault("schemas", {})
    for operation in _operations(whole):
        _lift(operation, schemas)
        operation["responses"].pop("422", None)  # FastAPI's own form of it, which we never answer
        operation["responses"]["default"] = ERROR
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = PROBLEM
    components["schemas"] = dict(sorted(schemas.items()))
    components["securitySchemes"] = {"key": KEY}
    _secure(app, whole)
    return whole


def _operations(whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in whole["paths"].values():
        yield from methods.values()


def _lift(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    """The body's own `$defs` are components: a document has no others. The body becomes one, too."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content and "$ref" not in content["schema"]:
        body = dict(content["schema"])
        parts = {**body.pop("$defs", {}), body["title"]: body}
        schemas |= {name: _moved(part) for name, part in parts.items()}
        content["schema"] = {"$ref": f"{REF}{body['title']}"}


def _moved(part: Any) -> Any:
    if isinstance(part, dict):
        return {k: v.replace("#/$defs/", REF) if k == "$ref" else _moved(v) for k, v in part.items()}
    return [_moved(item) for item in part] if isinstance(part, list) else part


def _secure(app: FastAPI, whole: dict[str, Any]) -> None:
    """Each operation with the roles that may call it, any one of them."""
    for route, access in declared(app):
        for method in route.methods or ():
            operation = whole["paths"].get(route.path_format, {}).get(method.lower())
            if operation is not None and access is not None:
                operation["security"] = [{"key": [role]} for role in access.roles]
