"""What an operator does from the command line, and who may not."""

from pathlib import Path

import pytest

from shared.ids import new_id
from shared.schemas.base import Page
from shared.schemas.views import DeliveryRow
from tests.integration.cli.command import Tandem
from tests.integration.cli.test_watching import dead_delivery
from tests.integration.sync.builder import Builder


async def test_a_run_is_paused_resumed_drained_and_failed(build: Builder, operator: Tandem):
    await build.declare()
    await build.open()
    paused = await operator("pause", "r1")
    assert paused.lines == ["run r1 is paused: go on with: tandem resume r1"]
    for words, state in ((("resume", "r1"), "running"), (("drain", "r1"), "draining")):
        assert (await operator(*words, "--json")).json["state"] == state
    failed = await operator("fail", "r1", "--reason", "bad-reward", "--json")
    assert (failed.json["state"], failed.json["reason"]) == ("failed", "bad-reward")
    refused = await operator("resume", "r1")
    assert (refused.code, "failed" in refused.fault) == (2, True)


async def test_resume_of_a_folder_is_not_about_a_run(operator: Tandem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert "there is no run r1" in (await operator("resume", "r1")).fault
    (tmp_path / "r1").mkdir()
    for folder in ("r1", "runs/nowhere"):
        assert f"there is no configuration file {folder}" in (await operator("resume", folder)).fault


async def test_a_group_is_discarded(build: Builder, operator: Tandem):
    await build.declare()
    group = await build.open()
    assert (await operator("discard", group)).lines == [f"group {group} of step 1 is discarded"]
    assert (await build.group(group)).reason == "by-operator"
    assert "no id" in (await operator("discard", "1")).fault
    assert "there is no group" in (await operator("discard", new_id())).fault


async def test_a_dead_delivery_is_requeued_and_skipped(build: Builder, operator: Tandem):
    await build.declare(groups_per_step=1, max_attempts=1)
    await dead_delivery(build)
    (row, *_) = (await build.get("/v1/runs/r1/deliveries?state=dead", Page[DeliveryRow])).items
    assert (await operator("requeue", row.id)).lines == ["the planner's step 1 of run r1 is ready"]
    trainer = build.trainer("planner")
    await trainer.resume()
    await trainer.delivery()
    await trainer.release("trainer-failed")
    assert (await operator("skip", row.id, "--json")).json["reason"] == "by-operator"


async def test_a_viewer_steers_nothing(build: Builder, viewer: Tandem):
    await build.declare()
    group = await build.open()
    for words in (("pause", "r1"), ("drain", "r1"), ("discard", group), ("skip", new_id())):
        refused = await viewer(*words)
        assert (refused.code, "only operator" in refused.fault) == (2, True)
    assert (await build.client.run("r1")).state == "running"
