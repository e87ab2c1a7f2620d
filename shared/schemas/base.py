"""What all wire schemas have in common: strict, frozen, no unknown fields, finite numbers only."""

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Role = Literal["planner", "executor"]
ROLES: tuple[Role, Role] = ("planner", "executor")
KeyRole = Literal["planner", "executor", "operator", "viewer", "metrics"]
KEY_ROLES: tuple[KeyRole, ...] = ("planner", "executor", "operator", "viewer", "metrics")
MAX_INTEGER = 2**31 - 1

Unit = Annotated[float, Field(strict=True, ge=0.0, le=1.0, allow_inf_nan=False)]
Binary = Annotated[int, Field(strict=True, ge=0, le=1)]
Step = Annotated[int, Field(strict=True, ge=0, le=MAX_INTEGER)]
Reason = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
"""A reason code, kebab case: bounded in number, safe as a metric label."""
Text = Annotated[str, StringConstraints(max_length=500, pattern=r"^[^\x00]*$")]
"""Short text for people; no NUL, which Postgres cannot store."""


class Wire(BaseModel):
    """Base of everything that crosses a wire."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class PolicyVersion(Wire):
    """Which weights: the trainer's epoch and step, and the optimiser steps behind them, which staleness counts."""

    epoch: Step
    step: Step
    updates: Step


T = TypeVar("T")


class Page(Wire, Generic[T]):
    """One page of a list; `next` is an opaque cursor, null on the last page."""

    items: tuple[T, ...]
    next: str | None = None
