"""Ids are UUIDv7 strings, made by whoever makes the thing, so that creating it again is the same request."""

import uuid
from typing import Annotated

import uuid_utils
from pydantic import StringConstraints

Id = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")]
"""A UUID in its canonical lower-case form."""

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
"""A name a person gives: runs, workers, tasks, environments."""

_NAMESPACE = uuid.UUID("6f7c1c2e-6a0e-4b0e-9f55-7a4d1d0c5a11")


def new_id() -> str:
    """A fresh id whose order is the order of creation."""
    return str(uuid_utils.uuid7())


def derived_id(*parts: object) -> str:
    """The id of a thing that is a pure function of `parts`: a restarted process names it the same again."""
    return str(uuid.uuid5(_NAMESPACE, "/".join(map(str, parts))))
