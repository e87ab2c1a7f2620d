"""Every JSON example of docs/protocol.md is what its schema accepts, and every table of fields is its schema's."""

import json

import pytest
from pydantic import BaseModel

from shared import errors
from shared.errors import TandemError, from_problem
from tests.integration.docs.markdown import Block
from tests.integration.docs.protocol_page import EXAMPLES, FIELDS, TABLES, in_code, named, schema


@pytest.mark.parametrize("block", EXAMPLES, ids=str)
def test_an_example_is_valid(block: Block):
    body = json.loads(block.text)
    match named(block):
        case "problem":
            assert from_problem(body, body["status"]).problem() == body
        case "readiness":
            assert body == {"ready": True, "checks": {"database": "ok", "migration": "ok", "disk": "ok"}}
        case name:
            schema(name).model_validate_json(block.text)


def test_an_example_of_the_wrong_type_is_refused():
    with pytest.raises(ValueError, match="d_max"):
        schema("RunSpec").model_validate_json('{"steps": 1, "d_max": true}')


@pytest.mark.parametrize("table", FIELDS, ids=lambda table: table[0][0])
def test_a_table_of_fields_is_its_schema(table: list[list[str]]):
    fields = schema(in_code(table[0][0])).model_fields
    assert [in_code(row[0]) for row in table[1:]] == list(fields)
    for row in table[1:]:
        field = fields[in_code(row[0])]
        assert row[1] == ("-" if field.is_required() else f"`{_json(field.get_default())}`"), row


def _json(value: object) -> str:
    return json.dumps(value.model_dump() if isinstance(value, BaseModel) else value)


def test_the_errors_are_those_of_the_tree():
    (table,) = [table for table in TABLES if table[0] == ["type", "status", "retryable", "when"]]
    described = {in_code(row[0]): (int(row[1]), row[2] == "yes") for row in table[1:]}
    tree = {cls.type: cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, TandemError)}
    del tree["user-error"]  # of the command line
    assert described == {name: (cls.status, cls.retryable) for name, cls in tree.items()}
