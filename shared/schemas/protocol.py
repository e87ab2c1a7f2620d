"""The version of the protocol between the services, and which fields of a request it has.

Every request of ours and every answer names the version of its sender in the header HEADER; a request without it (curl)
is taken as the current version. Servers are upgraded before clients. A field that came later than version 1 is
annotated with `Since(version)` and has a default: a client leaves it out towards a server that is older.
"""

import functools
import types
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from shared.errors import InvalidInput, ProtocolMismatch

HEADER = "tandem-protocol"
PROTOCOL = 1
"""The version that this code speaks."""
OLDEST_CLIENT = 1
"""The oldest client that these servers still answer."""
OLDEST_SERVER = 1
"""The oldest server that this client can talk to by leaving newer fields out."""


@dataclass(frozen=True, slots=True)
class Since:
    """The version that a field came with: `Annotated[int | None, Since(2)] = None`."""

    version: int


@functools.cache
def left_out(model: type[BaseModel], version: int) -> dict[str, Any] | None:
    """What `model_dump_json(exclude=...)` must leave out towards a peer of `version`; None where it knows all."""
    spec: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        since = max((mark.version for mark in field.metadata if isinstance(mark, Since)), default=1)
        inner = True if since > version else _inside(field.annotation, version)
        if inner:
            spec[name] = inner
    return spec or None


def _inside(annotation: Any, version: int) -> dict[str, Any] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return left_out(annotation, version)
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType, Annotated, tuple, list):
        for part in get_args(annotation):
            if inner := _inside(part, version):
                return {"__all__": inner} if origin in (tuple, list) else inner
    return None


@dataclass
class Peer:
    """A server as its client knows it; `name` is for people."""

    name: str
    version: int | None = None

    def heard(self, header: str | None) -> None:
        """An answer came with this header, or without (a proxy answered); ProtocolMismatch where it is too old."""
        version = _parse(header)
        if version is not None and version < OLDEST_SERVER:
            raise ProtocolMismatch(
                f"{self.name} speaks protocol {version}; this client speaks {PROTOCOL}, and no older one than "
                f"{OLDEST_SERVER}: upgrade the server"
            )
        self.version = version or self.version

    def must_be_asked(self, body: BaseModel) -> bool:
        """Whether what may be sent depends on a version that nobody has heard yet."""
        return self.version is None and left_out(type(body), OLDEST_SERVER) is not None

    def encode(self, body: BaseModel) -> bytes:
        """The body as JSON, without what the server does not know yet."""
        return body.model_dump_json(exclude=left_out(type(body), self.version or PROTOCOL)).encode()


def check_client(header: str | None) -> None:
    """A server's side: ProtocolMismatch where the caller is too old, InvalidInput where the header is no version."""
    if header is None:
        return
    version = _parse(header)
    if version is None:
        raise InvalidInput(f"{HEADER}: a version is a whole number")
    if version < OLDEST_CLIENT:
        raise ProtocolMismatch(
            f"the client speaks protocol {version}; this service speaks {PROTOCOL}, and no older one than "
            f"{OLDEST_CLIENT}: upgrade the client"
        )


def _parse(header: str | None) -> int | None:
    return int(header) if header and header.isascii() and header.isdigit() and len(header) < 10 else None
