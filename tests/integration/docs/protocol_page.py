"""docs/protocol.md, taken apart: its examples with their schemas, its tables of fields, of calls and of states."""

import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple

from pydantic import BaseModel

from shared.schemas import base, events, invocation, rollout, run, stream, verdict, views
from tests.integration.docs.markdown import ROOT, Block, blocks, sections, tables

PAGE = ROOT / "docs" / "protocol.md"
EXAMPLES = blocks(PAGE, "json")
TABLES = tables(PAGE.read_text())
FIELDS = [table for table in TABLES if table[0][1:] == ["default", "meaning"]]
MODULES: tuple[ModuleType, ...] = (base, events, invocation, rollout, run, stream, verdict, views)


class Call(NamedTuple):
    """One call: its method and path, query parameters, the names of its body and its answer (`-`: no schema)."""

    call: str
    query: tuple[str, ...]
    body: str
    answer: str


def schema(name: str) -> type[BaseModel]:
    """The wire schema called `name`, `Page[...]` included; LookupError where there is none."""
    if page := re.fullmatch(r"Page\[(\w+)\]", name):
        return base.Page[schema(page[1])]  # ty: ignore[invalid-type-form]
    for module in MODULES:
        found = getattr(module, name, None)
        if inspect.isclass(found) and issubclass(found, BaseModel):
            return found
    raise LookupError(f"shared/schemas has no {name}")


def named(block: Block) -> str:
    """The schema that an example's opening fence names."""
    found = re.fullmatch(r"<!-- schema: (\S+) -->", block.note)
    assert found, f"{block} names no schema"
    return found[1]


def in_code(cell: str) -> str:
    """What stands in a cell that is one code span."""
    assert re.fullmatch(r"`[^`]+`", cell), cell
    return cell.strip("`")


def calls(section: str) -> Iterator[Call]:
    """The calls in the tables of one section."""
    for table in tables(sections(PAGE, 2)[section]):
        if table[0] == ["call", "query", "body", "answer", "what it does"]:
            for call, query, body, answer, _ in table[1:]:
                names = tuple(sorted(re.findall(r"`(\w+)`", query)))
                yield Call(in_code(call), names, body.strip("`"), answer.strip("`"))
