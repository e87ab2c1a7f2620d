"""From a name in a configuration to an environment: an entry point's name, or `package.module:Class`."""

import importlib
import inspect
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from shared.environments.base import Environment
from shared.errors import UserError

GROUP = "tandem.environments"


def load_environment(name: str, options: Mapping[str, Any] | None = None) -> Environment:
    """The environment `name`, made with `options`; UserError names what is unknown, missing or wrong."""
    cls = _load_class(name)
    if not (isinstance(cls, type) and issubclass(cls, Environment)):
        raise UserError(f"environment {name} is no subclass of shared.environments.base.Environment")
    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        raise UserError(f"environment {name} lacks {', '.join(missing)}")
    if not isinstance(getattr(cls, "name", None), str):
        raise UserError(f"environment {name} has no name")
    environment = cls(**_checked(cls, name, options or {}))
    environment.check()
    return environment


def _load_class(name: str) -> Any:
    if ":" in name:
        module, _, attribute = name.partition(":")
        if not all(part.isidentifier() for part in (*module.split("."), attribute)):
            raise UserError(f"environment {name!r}: it is written package.module:Class")
        try:
            return getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            raise UserError(f"environment {name}: there is no module {error.name}") from None
        except AttributeError:
            raise UserError(f"environment {name}: {module} has no {attribute}") from None
    registered = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in registered:
        known = ", ".join(sorted(registered)) or "none is installed"
        raise UserError(f"unknown environment {name!r}; known: {known}; or name it package.module:Class")
    return registered[name].load()


def _checked(cls: type[Environment], name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    signature = inspect.signature(cls)
    try:
        signature.bind(**options)
    except TypeError as error:
        known = ", ".join(signature.parameters) or "none"
        raise UserError(f"environment {name}: {error}; its options: {known}") from None
    return dict(options)
