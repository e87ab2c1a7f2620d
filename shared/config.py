"""Configuration: a frozen pydantic model, a sparse TOML file, dotted overrides; unknown keys are refused by name.

`load(Model, file, ["trainer.lr=1e-4"])` reads the file, lays the overrides over it, and validates; `save` writes the
resolved copy. Secrets are never part of it: they come from the environment or from files that `*_file` keys name.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tomli_w
from pydantic import AfterValidator, AnyHttpUrl, BaseModel, ConfigDict, TypeAdapter, ValidationError

from shared.errors import UserError


class Config(BaseModel):
    """Base of every configuration section."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _url(text: str) -> str:
    try:
        url = _URL.validate_python(text)
    except ValidationError:
        raise ValueError("this is no http:// or https:// URL") from None
    if url.username is not None or url.password is not None:
        raise ValueError("a URL that is saved and logged names no user and no password")
    return text


_URL: TypeAdapter[AnyHttpUrl] = TypeAdapter(AnyHttpUrl)
Url = Annotated[str, AfterValidator(_url)]
"""Where a server is, as it is written: http://host:port."""
M = TypeVar("M", bound=BaseModel)
TOO_DEEP = "its brackets are nested too deep"


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; UserError names the file and the line where it is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no configuration file {path}") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}") from None
    except RecursionError:
        raise UserError(f"{path}: {TOO_DEEP}") from None


def override(tables: dict[str, Any], assignments: list[str]) -> dict[str, Any]:
    """`tables` with each `a.b=value` laid over it; a value is TOML, or else a plain string."""
    result = dict(tables)
    for assignment in assignments:
        dotted, equals, text = assignment.partition("=")
        if not equals or not dotted:
            raise UserError(f"an override is written key.name=value, not {assignment!r}")
        *parents, leaf = dotted.split(".")
        node = result
        for parent in parents:
            child = node.get(parent, {})
            if not isinstance(child, dict):
                raise UserError(f"{dotted}: {parent} is a value, not a section")
            node[parent] = node = dict(child)
        node[leaf] = _value(text)
    return result


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text
    except RecursionError:
        raise UserError(f"{text[:20]}...: {TOO_DEEP}") from None


def parse(model: type[M], tables: dict[str, Any], source: str = "configuration") -> M:
    """Validate; every fault becomes part of one readable line."""
    try:
        return model.model_validate(tables)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'value'}: {_plain(e)}" for e in error.errors())
        raise UserError(f"{source}: {faults}") from None


def _plain(error: Any) -> str:
    return "unknown key" if error["type"] == "extra_forbidden" else error["msg"].removeprefix("Value error, ")


def load(model: type[M], path: Path | None, assignments: list[str] | None = None) -> M:
    """Read, override, validate."""
    tables = read_toml(path) if path else {}
    return parse(model, override(tables, assignments or []), str(path or "configuration"))


def save(config: BaseModel, path: Path) -> None:
    """Write the resolved configuration; what is None is left out, as TOML has no null. UserError where it cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(tomli_w.dumps(config.model_dump(mode="json", exclude_none=True)), encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from None
