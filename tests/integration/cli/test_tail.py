"""`tandem tail`: each event once, in order, whatever the stream does."""

import asyncio
import json

import pytest

from shared.cli.sse import events
from shared.errors import Unavailable
from sync_service.routes import events as route
from tests.integration.cli.command import Tandem
from tests.integration.sync.builder import Builder


async def test_what_there_is_is_printed_and_filtered(build: Builder, viewer: Tandem):
    await build.declare(groups_per_step=1)
    await build.fill(1)
    await build.app.state.service.feed.number()
    every = await viewer("tail", "r1", "--after", "0", "--no-follow", "--json")
    printed = [json.loads(line) for line in every.lines]
    assert [event["position"] for event in printed] == sorted({event["position"] for event in printed})
    assert {"run-moved", "group-closed", "delivery-ready"} <= {event["kind"] for event in printed}
    some = await viewer("tail", "--after", "0", "--no-follow", "--kind", "delivery-ready", "--role", "planner")
    (line,) = some.lines
    assert "delivery-ready" in line
    assert "role=planner" in line
    assert (await viewer("tail", "r1", "--no-follow")).out == ""  # from now on: there is nothing yet
    assert "the kinds are" in (await viewer("tail", "--kind", "rain")).fault
    assert "planner or executor" in (await viewer("tail", "--role", "cook")).fault


async def test_a_stream_that_ends_again_and_again_loses_and_repeats_nothing(
    build: Builder, viewer: Tandem, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(route, "STREAM_S", 0.1)
    monkeypatch.setattr("shared.cli.tail.FIRST_PAUSE_S", 0.01)
    await build.declare()
    await build.app.state.service.feed.number()
    words = ("tail", "r1", "--after", "0", "--kind", "run-moved", "--count", "6", "--json")
    following = asyncio.create_task(viewer(*words))
    await build.open()
    for verb in ("pause", "resume", "pause", "resume"):
        await build.post(f"/v1/runs/r1:{verb}")
        await build.app.state.service.feed.number()
    printed = [json.loads(line)["body"]["state"] for line in (await following).lines]
    assert printed == ["declared", "running", "paused", "running", "paused", "running"]


def test_the_format_of_a_stream():
    data = '{"position": 3, "run": "r1", "kind": "batch-cut", "at": "2026-11-30T00:00:00+00:00", "body": {"step": 1}}'
    whole = [": still here", "", "id: 3", "event: batch-cut", f"data: {data}", "", "id: 4", f"data: {data}"]
    assert [event.position for event in events(whole)] == [3]  # the last one was not sent to its end
    with pytest.raises(Unavailable, match="no event of this version"):
        list(events(["data: {}", ""]))
