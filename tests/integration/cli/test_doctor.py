"""`tandem doctor`: each thing that is wrong is named, with what to do."""

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fastapi import FastAPI

from shared.cli.doctor.machine import packages
from shared.cli.doctor.servers import clock
from tests.integration.cli.command import URL, Outcome, Tandem
from tests.integration.sync.builder import Builder
from tests.listening import listening
from tests.parity_environment import save_model


def states(outcome: Outcome) -> dict[str, str]:
    return {finding["what"]: finding["state"] for finding in outcome.json}


@pytest.mark.parametrize("role", ["operator", "viewer", "planner", "metrics"])
async def test_all_is_well(build: Builder, site: str, key_files: dict[str, Path], role: str):
    await build.declare()
    outcome = await Tandem({URL: site}).with_key(key_files[role])("doctor", "--json", "--constraints", "/nowhere")
    found = states(outcome)
    for what in ("sync service", "sync service: database", "sync service: clock", "key file", "key", "python"):
        assert found[what] == "OK", outcome.out
    assert ("database: clock" in found) == (role in ("operator", "viewer"))
    (key,) = [finding["text"] for finding in outcome.json if finding["what"] == "key"]
    assert role in key


async def test_what_is_wrong_is_a_fail_with_what_to_do(site: str, key_files: dict[str, Path], tmp_path: Path):
    tandem = Tandem({URL: site}).with_key(key_files["viewer"])
    key_files["viewer"].chmod(0o644)
    assert states(await tandem("doctor", "--json"))["key file"] == "WARN"
    (tmp_path / "hashes").write_text("nonsense")
    strange = await tandem("doctor", "--hashes", tmp_path / "hashes", "--json")
    assert states(strange)["hashes"] == "FAIL"
    wrong = tmp_path / "wrong.key"
    wrong.write_text("tandem_" + "0" * 12 + "_" + "0" * 64)
    refused = await tandem.with_key(wrong)("doctor", "--json")
    assert (refused.code, states(refused)["key"]) == (1, "FAIL")
    text = (await tandem.with_key(wrong)("doctor")).out
    assert "tandem keys create" in text


async def test_a_port_without_a_server_and_one_with_another_server(tmp_path: Path):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        async with listening(FastAPI()) as stranger:
            away = f"http://127.0.0.1:{nobody.getsockname()[1]}"
            outcome = await Tandem({URL: away})("doctor", "--planner-url", stranger, "--json")
    assert outcome.code == 1
    assert states(outcome)["sync service"] == "FAIL"
    (other,) = [finding for finding in outcome.json if finding["what"] == "planner server"]
    assert "something else answers" in other["text"]


async def test_a_model_is_tested_by_its_chat_template(site: str, tmp_path: Path):
    save_model(tmp_path / "good", "planner", {})
    save_model(tmp_path / "bad", "planner", {}, template="{%- for m in messages -%}{{ m.role }}{%- endfor -%}")
    words = (
        "doctor",
        "--json",
        "--model",
        tmp_path / "good",
        "--model",
        tmp_path / "bad",
        "--model",
        tmp_path / "none",
    )
    found = states(await Tandem({URL: site})(*words))
    assert found["model good: chat template"] == "OK"
    assert found["model bad: chat template"] == "FAIL"
    assert found["model none"] == "FAIL"


def test_clocks_apart_are_a_warning():
    now = datetime(2026, 11, 30, 12, tzinfo=UTC)
    header = "Mon, 30 Nov 2026 12:00:00 GMT"
    assert [clock("s", header, now + timedelta(seconds=s)).state for s in (0, 4, -30)] == ["OK", "OK", "WARN"]
    assert clock("s", "", now).state == "WARN"


def test_packages_beside_what_is_needed_and_what_is_tested():
    by_name = {f.what: f for f in packages({"pydantic": "999", "fastapi": "0.1"}, {"fastapi": "0.0.1"})}
    assert (by_name["pydantic"].state, by_name["fastapi"].state) == ("FAIL", "WARN")
    assert "pip install" in by_name["pydantic"].todo
