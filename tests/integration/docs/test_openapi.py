"""The OpenAPI documents: valid, as committed, and the body of each call is one of its components."""

import json
import sys
from typing import Any

import pytest
from openapi_spec_validator import validate

from docs.openapi.write import FOLDER, apps, main
from shared.http.openapi import document
from tests.integration.access.matrix import EXECUTOR, PLANNER, SYNC

TABLES = {"sync": SYNC, "planner": PLANNER, "executor": EXECUTOR}


@pytest.fixture(scope="module")
def documents() -> dict[str, dict[str, Any]]:
    return {name: document(app) for name, app in apps().items()}


@pytest.mark.parametrize("name", TABLES)
def test_it_is_valid_and_committed(documents, name: str):
    validate(documents[name])
    assert json.loads((FOLDER / f"{name}.json").read_text()) == documents[name], "run make openapi"


@pytest.mark.parametrize("name", TABLES)
def test_each_operation_names_its_roles(documents, name: str):
    said = {
        f"{method.upper()} {path}": {role for choice in operation["security"] for role in choice["key"]}
        for path, methods in documents[name]["paths"].items()
        for method, operation in methods.items()
    }
    expected = {call: set(roles.split()) for call, roles in TABLES[name].items()}
    assert said == {call: roles for call, roles in expected.items() if call in said}
    assert expected.keys() - said.keys() <= {"GET /metrics"}


def test_a_document_that_differs_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path, capsys):
    monkeypatch.setattr(sys.modules[main.__module__], "FOLDER", tmp_path)
    assert main(check=True) == 1
    assert "make openapi" in capsys.readouterr().err
    assert (main(check=False), main(check=True)) == (0, 0)
