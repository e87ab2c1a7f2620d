"""Tools: named callables whose JSON schema is read off their signature. A model's mistake is a result, never a raise.

A tool is any function, async or not, that returns text or a `ToolResult`. If its first parameter is named `context`, it
is given the context to which the toolbox is `bound` (one invocation, one rollout); the model never sees it.
"""

import asyncio
import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NotRequired

import structlog
from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from shared.environments.base import ToolError, ToolResult
from shared.errors import InvalidInput, TandemError, UserError

MAX_CONTENT = 50_000
"""Characters of a result. More is cut, and says so: no context holds it, and rendering it would stall the server."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: `arguments` validates what the model wrote, `schema` describes it to the model."""

    name: str
    function: Callable[..., Any]
    takes_context: bool
    arguments: TypeAdapter[Any]
    schema: dict[str, Any]


class Toolbox:
    """The tools of one role, by name."""

    def __init__(self, functions: Mapping[str, Callable[..., Any]], context: Any = None) -> None:
        """UserError where a signature cannot be described: `*args`, `**kwargs`, or an unknown annotation."""
        self._tools = {name: _tool(name, function) for name, function in functions.items()}
        self._context = context

    def bound(self, context: Any) -> "Toolbox":
        """The same tools with another context; cheap, as the signatures are not read again."""
        toolbox = copy.copy(self)
        toolbox._context = context
        return toolbox

    def schemas(self) -> list[dict[str, Any]]:
        """Name, description and JSON schema of the parameters of each tool, for the system message."""
        return [tool.schema for tool in self._tools.values()]

    async def call(self, name: str, arguments: Mapping[str, Any], timeout_s: float | None = None) -> ToolResult:
        """Run a tool. Unknown, badly called or failing: state `error`; slower than `timeout_s`: `timeout`.

        Our own errors but InvalidInput, `Unavailable` above all, pass through: they say that the infrastructure failed
        and not the model, and the caller aborts.
        """
        checked = self._checked(name, arguments)
        return checked if isinstance(checked, ToolResult) else await self._run(*checked, timeout_s)

    def refusal(self, name: str, arguments: Mapping[str, Any]) -> ToolResult | None:
        """What `call` answers without running anything: to an unknown tool, or to bad arguments; else None."""
        checked = self._checked(name, arguments)
        return checked if isinstance(checked, ToolResult) else None

    def _checked(self, name: str, arguments: Mapping[str, Any]) -> tuple[Tool, dict[str, Any]] | ToolResult:
        tool = self._tools.get(name)
        if tool is None:
            return ToolResult("error", f"There is no tool {name[:64]!r}. The tools: {', '.join(self._tools)}.")
        try:
            return tool, tool.arguments.validate_python(dict(arguments))
        except ValidationError as error:
            faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
            return ToolResult("error", bounded(f"Bad arguments of {name}: {'; '.join(faults)}."))

    async def _run(self, tool: Tool, valid: dict[str, Any], timeout_s: float | None) -> ToolResult:
        positional = (self._context,) if tool.takes_context else ()
        try:
            async with asyncio.timeout(timeout_s):
                if inspect.iscoroutinefunction(tool.function):
                    value = await tool.function(*positional, **valid)
                else:
                    value = await asyncio.to_thread(tool.function, *positional, **valid)
        except TimeoutError:
            return timed_out(tool.name)
        except (ToolError, InvalidInput) as error:
            return ToolResult("error", bounded(str(error)))
        except TandemError:
            raise
        except Exception as error:  # a tool is the user's code: its fault is a state that the model sees
            log.warning("tool failed", tool=tool.name, exc_info=error)
            return failed(tool.name)
        result = value if isinstance(value, ToolResult) else ToolResult("ok", str(value))
        return ToolResult(result.state, bounded(result.content))


def timed_out(name: str) -> ToolResult:
    """What a tool comes to that was slower than its deadline."""
    return ToolResult("timeout", f"{name} did not answer in time.")


def failed(name: str) -> ToolResult:
    """What a tool comes to that raised what is no `ToolError`; the reason is in the log, and not the model's."""
    return ToolResult("error", f"{name} failed.")


def _tool(name: str, function: Callable[..., Any]) -> Tool:
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except (NameError, TypeError, ValueError) as error:
        raise UserError(f"tool {name}: its signature cannot be read: {error}") from None
    takes_context = bool(parameters) and parameters[0].name == "context"
    described = parameters[1:] if takes_context else parameters
    adapter = _arguments(name, described)
    parameters_schema = _without_titles(adapter.json_schema())
    description = inspect.getdoc(function) or ""
    schema = {"name": name, "description": description, "parameters": parameters_schema}
    return Tool(name, function, takes_context, adapter, schema)


def _arguments(name: str, parameters: list[inspect.Parameter]) -> TypeAdapter[Any]:
    fields: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise UserError(f"tool {name}: parameter {parameter} cannot be named in a call")
        annotation = str if parameter.annotation is parameter.empty else parameter.annotation
        fields[parameter.name] = annotation if parameter.default is parameter.empty else NotRequired[annotation]
    try:
        return TypeAdapter(with_config(ConfigDict(extra="forbid"))(TypedDict(f"{name}_arguments", fields)))  # ty: ignore
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"tool {name}: its parameters have no JSON schema: {error}") from None


def _without_titles(schema: Any) -> Any:
    """The schema without the titles that pydantic derives from names: tokens that say nothing."""
    if isinstance(schema, dict):
        return {k: _without_titles(v) for k, v in schema.items() if not (k == "title" and isinstance(v, str))}
    return [_without_titles(item) for item in schema] if isinstance(schema, list) else schema


def bounded(content: str) -> str:
    """Text that can be encoded, of a bounded length."""
    text = content if len(content) <= MAX_CONTENT else content[:MAX_CONTENT] + " [cut]"
    return text.encode("utf-8", "replace").decode()
