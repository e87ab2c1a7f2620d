"""A server that the sync service refuses, for its key or its version: one line that says so, and exit code 2."""

import httpx
import pytest

from shared.client import SyncClient
from shared.errors import Forbidden, ProtocolMismatch, TandemError, Unauthorized
from shared.serving.main import _report
from shared.serving.member import Member


@pytest.mark.parametrize(
    "refusal",
    [Unauthorized("the sync service knows no such key"), Forbidden("of another run"), ProtocolMismatch("too old")],
)
async def test_a_refusal_ends_the_server(refusal: TandemError, capsys: pytest.CaptureFixture[str]):
    answer = httpx.Response(refusal.status, json=refusal.problem())
    async with SyncClient("http://sync", transport=httpx.MockTransport(lambda _: answer)) as sync:
        member = Member(sync, "r", "w", "planner", "http://here")
        for ask in (member.declared, member.heartbeats):
            with pytest.raises(type(refusal)) as raised:
                await ask()
            assert _report("planner-server", raised.value) == 2
            assert capsys.readouterr().err == f"planner-server: {refusal.detail}\n"


def test_a_file_that_cannot_be_used_is_one_line_too(capsys: pytest.CaptureFixture[str]):
    assert _report("planner-server", FileExistsError(17, "File exists", "/here/checkpoints")) == 2
    assert _report("planner-server", OSError(36, "File name too long", "/here")) == 2
    assert _report("planner-server", OSError(28, "No space left on device", "/here/config.toml")) == 1
    lines = [
        "/here/checkpoints: File exists",
        "/here: File name too long",
        "/here/config.toml: No space left on device",
    ]
    assert capsys.readouterr().err.splitlines() == [f"planner-server: {line}" for line in lines]
