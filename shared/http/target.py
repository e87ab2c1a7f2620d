"""Paths and queries are text: UTF-8 without NUL, once their escapes are resolved."""

from urllib.parse import unquote_to_bytes

from fastapi import Request

from shared.errors import InvalidInput


def check_target(request: Request) -> None:
    """InvalidInput where the path or the query is none."""
    target = request.scope.get("raw_path", b"") + b"?" + request.scope["query_string"]
    if b"%" not in target:
        return
    try:
        text = unquote_to_bytes(target).decode()
    except UnicodeDecodeError:
        raise InvalidInput("the path or the query is no UTF-8") from None
    if "\0" in text:
        raise InvalidInput("the path or the query holds a NUL")
