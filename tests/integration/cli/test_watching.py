"""`tandem status`, `runs` and `groups`: what they show, and what they say where they cannot."""

import asyncio
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from shared.cli.picture import look
from shared.cli.picture_view import render
from shared.cli.server import Server
from shared.cli.status import _live
from shared.errors import Unavailable
from shared.schemas.stream import Heartbeat
from tests.integration.cli.command import URL, Tandem
from tests.integration.sync.builder import VERSION, Builder


async def dead_delivery(build: Builder) -> None:
    """The planner's step 1 is dead."""
    await build.fill(1)
    trainer = build.trainer("planner")
    await trainer.resume()
    await trainer.delivery()
    await trainer.release("trainer-failed")


async def test_the_verdict_both_roles_the_funnel_and_the_workers_are_shown(build: Builder, viewer: Tandem):
    await build.declare(groups_per_step=1)
    await build.fill(1)
    beat = Heartbeat(role="planner", url="http://127.0.0.1:1", version=VERSION, doing="rollouts of step 2")
    await build.client.heartbeat("r1", "planner-1", beat)
    text = (await viewer("status")).out
    for part in (
        "r1",
        "step 0 of 3",
        "planner",
        "executor",
        "nobody",
        "1 complete",
        "2 reported",
        "rollouts of step 2",
    ):
        assert part in text
    shown = (await viewer("status", "r1", "--json")).json
    assert shown["status"]["groups"] == {"complete": 1}
    assert shown["verdict"]["run"] == "r1"
    assert [worker["worker"] for worker in shown["workers"]] == ["planner-1"]


async def test_a_dead_delivery_comes_with_the_commands_that_help(build: Builder, viewer: Tandem):
    await build.declare(groups_per_step=1, max_attempts=1)
    await dead_delivery(build)
    (row,) = (await viewer("status", "--json")).json["dead"]
    assert f"tandem requeue {row['id']}, or tandem skip {row['id']}" in (await viewer("status")).out


async def test_the_last_step_of_each_role_is_shown(build: Builder, viewer: Tandem):
    await build.declare(groups_per_step=1)
    trainer = build.trainer("planner")
    await trainer.resume()
    await trainer.confirm(0)
    await build.fill(1)
    await trainer.train()
    steps = (await viewer("status", "--json")).json["steps"]
    assert {role: step["step"] for role, step in steps.items()} == {"planner": 1}


async def test_while_the_service_is_away_the_last_picture_stays_and_says_its_age(
    build: Builder, site: str, viewer: Tandem, key_files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
):
    await build.declare()
    server = Server(site, key_files["viewer"].read_text().strip(), "the sync service")
    running = await asyncio.to_thread(look, server, "r1")
    await build.client.fail("r1", "over")
    looks = iter([Unavailable("it is away"), look])

    def next_look(*asked):
        found = next(looks)
        if isinstance(found, Unavailable):
            raise found
        return found(*asked)

    monkeypatch.setattr("shared.cli.picture.look", next_look)
    await asyncio.to_thread(_live, server, running, 0.01)  # it ends with the run
    assert next(looks, None) is None
    shown = Console(width=200, file=StringIO())
    shown.print(render(running, fault="it is away", age_s=12.0))
    assert shown.file.getvalue().startswith("12 s old: it is away\nr1  ")


async def test_which_run_is_meant(build: Builder, viewer: Tandem):
    assert (await viewer("status")).fault.endswith("yet")
    await build.declare()
    other = await Builder(build.app, build.client, "r2").declare()
    assert (await viewer("status")).fault == "tandem: which run? r1 (declared), r2 (declared)"
    await other.client.fail("r2", "over")
    assert (await viewer("status", "--json")).json["status"]["run"] == "r1"
    assert "there is no run nobody" in (await viewer("status", "nobody")).fault
    assert "no name of a run" in (await viewer("status", "a/b")).fault


async def test_runs_and_groups_are_listed(build: Builder, viewer: Tandem):
    assert (await viewer("runs")).lines == ["there is no run yet"]
    await build.declare(staleness=2)
    opened = [await build.open(step, index) for step in (1, 2) for index in (0, 1)]
    assert [view["run"] for view in (await viewer("runs", "--json")).json] == ["r1"]
    assert (await viewer("runs")).lines[1].split()[:3] == ["r1", "running", "3"]
    listed = await viewer("groups", "r1", "--step", "2", "--state", "open", "--json")
    assert [view["group"] for view in listed.json] == opened[2:]
    first = await viewer("groups", "r1", "--limit", "1")
    assert opened[0] in first.lines[1]
    assert "more than 1" in first.err
    assert "--state 'lost'" in (await viewer("groups", "r1", "--state", "lost")).fault


@pytest.mark.parametrize("words", [("status",), ("runs",), ("groups", "r1"), ("tail",), ("pause", "r1"), ("eval",)])
async def test_a_wrong_key_and_a_server_that_is_away_are_one_line(
    words: tuple[str, ...], viewer: Tandem, tmp_path: Path
):
    wrong = tmp_path / "wrong.key"
    for text, said in (
        ("tandem_" + "0" * 12 + "_" + "0" * 64, "knows no such key"),
        ("nonsense", "holds no key"),
    ):
        wrong.write_text(text)
        outcome = await viewer.with_key(wrong)(*words)
        assert (outcome.code, said in outcome.fault) == (2, True), outcome
    away = await Tandem({**viewer.environment, URL: "http://127.0.0.1:9"})(*words)
    assert (away.code, "does not answer at http://127.0.0.1:9" in away.fault) == (2, True), away
    assert "--key-file" in (await viewer(*words, "--key-file", tmp_path / "none")).fault
