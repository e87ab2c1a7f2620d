import asyncio
import threading
from typing import Annotated, Literal

import pytest
from pydantic import Field

from shared.agents.toolbox import MAX_CONTENT, Toolbox
from shared.environments.base import ToolContext, ToolError, ToolResult
from shared.errors import InvalidInput, Overloaded, TandemError, Unavailable, UserError


def search(query: Annotated[str, Field(description="words")], limit: int = 3) -> str:
    """Find articles."""
    return f"{query} {limit}"


async def lookup(context: ToolContext, country: str) -> str:
    """The article of a country."""
    return f"{context.split}: {country}"


def raising(error):
    async def fails() -> str:
        raise error

    return Toolbox({"fails": fails})


async def test_a_tool_is_described_by_its_signature_and_never_by_its_context():
    assert Toolbox({"search": search, "lookup": lookup}).schemas() == [
        {
            "name": "search",
            "description": "Find articles.",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string", "description": "words"}, "limit": {"type": "integer"}},
                "required": ["query"],
                "additionalProperties": False,
            },
        },
        {
            "name": "lookup",
            "description": "The article of a country.",
            "parameters": {
                "type": "object",
                "properties": {"country": {"type": "string"}},
                "required": ["country"],
                "additionalProperties": False,
            },
        },
    ]


async def test_calls_with_defaults_and_coercion():
    toolbox = Toolbox({"search": search})
    assert await toolbox.call("search", {"query": "Paris"}) == ToolResult("ok", "Paris 3")
    assert await toolbox.call("search", {"query": "Paris", "limit": "5"}) == ToolResult("ok", "Paris 5")


async def test_a_parameter_may_have_any_name():
    def odd(schema: str, copy: str = "", json: str = "") -> str:
        return schema + copy + json

    assert await Toolbox({"odd": odd}).call("odd", {"schema": "a", "json": "b"}) == ToolResult("ok", "ab")


async def test_bound_gives_each_its_own_context():
    toolbox = Toolbox({"lookup": lookup})
    train, test = (toolbox.bound(ToolContext(split, "t", "s")) for split in ("train", "test"))
    assert (await train.call("lookup", {"country": "Chad"})).content == "train: Chad"
    assert (await test.call("lookup", {"country": "Chad"})).content == "test: Chad"


async def test_a_tool_may_state_its_own_result():
    async def delegate(task: str) -> ToolResult:
        return ToolResult("limit", task)

    assert await Toolbox({"delegate": delegate}).call("delegate", {"task": "x"}) == ToolResult("limit", "x")


async def test_a_blocking_tool_does_not_block_the_loop():
    released = threading.Event()

    def blocks() -> str:
        return str(released.wait(20))

    waiting = asyncio.create_task(Toolbox({"blocks": blocks}).call("blocks", {}))
    await asyncio.sleep(0)
    released.set()
    assert await waiting == ToolResult("ok", "True")


@pytest.mark.parametrize(
    ("name", "arguments", "named"),
    [
        ("find", {}, "There is no tool 'find'. The tools: search."),
        ("x" * 10_000, {}, "There is no tool 'xxx"),
        ("search", {}, "query"),
        ("search", {"query": 3}, "query"),
        ("search", {"query": "a", "limit": "many"}, "limit"),
        ("search", {"query": "a", "page": 2}, "page"),
    ],
)
async def test_a_models_mistake_is_a_result_that_names_it(name, arguments, named):
    result = await Toolbox({"search": search}).call(name, arguments)
    assert result.state == "error"
    assert named in result.content
    assert len(result.content) < 500


async def test_a_literal_is_part_of_the_schema_and_checked():
    def order(by: Literal["name", "size"]) -> str:
        return by

    toolbox = Toolbox({"order": order})
    assert toolbox.schemas()[0]["parameters"]["properties"]["by"]["enum"] == ["name", "size"]
    assert (await toolbox.call("order", {"by": "age"})).state == "error"


async def test_a_slow_tool_times_out_and_is_cancelled():
    cancelled = asyncio.Event()

    async def slow() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    result = await Toolbox({"slow": slow}).call("slow", {}, timeout_s=0.01)
    assert result == ToolResult("timeout", "slow did not answer in time.")
    assert cancelled.is_set()


async def test_a_tools_fault_is_a_state():
    assert await raising(ToolError("no such place")).call("fails", {}) == ToolResult("error", "no such place")
    assert await raising(InvalidInput("too long")).call("fails", {}) == ToolResult("error", "too long")
    assert await raising(KeyError("secret")).call("fails", {}) == ToolResult("error", "fails failed.")


@pytest.mark.parametrize("error", [Unavailable("gone"), Overloaded("full"), TandemError("a 500")])
async def test_a_fault_of_the_infrastructure_passes_through(error):
    with pytest.raises(type(error)):
        await raising(error).call("fails", {})


async def test_content_is_bounded_and_can_be_encoded():
    def huge() -> str:
        return "\ud800" + "x" * (2 * MAX_CONTENT)

    result = await Toolbox({"huge": huge}).call("huge", {})
    assert len(result.content) < MAX_CONTENT + 10
    assert result.content.endswith("x [cut]")
    assert result.content.encode()


def test_a_signature_that_cannot_be_described_is_refused_by_name():
    def star(*words: str) -> str:
        return " ".join(words)

    def opaque(value: threading.Event) -> str:
        return str(value)

    def unknown(value: "Missing") -> str:  # noqa: F821  # ty: ignore
        return value

    for name, function in {"star": star, "opaque": opaque, "unknown": unknown}.items():
        with pytest.raises(UserError, match=f"tool {name}: "):
            Toolbox({name: function})
