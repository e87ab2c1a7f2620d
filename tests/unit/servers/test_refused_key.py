"""A server whose key the sync service refuses: one line that says so, and exit code 2."""

import httpx
import pytest

from shared.client import SyncClient
from shared.errors import Forbidden, TandemError, Unauthorized
from shared.serving.main import _report
from shared.serving.member import Member


@pytest.mark.parametrize("refusal", [Unauthorized("the sync service knows no such key"), Forbidden("of another run")])
async def test_a_refused_key_ends_the_server(refusal: TandemError, capsys: pytest.CaptureFixture[str]):
    answer = httpx.Response(refusal.status, json=refusal.problem())
    async with SyncClient("http://sync", transport=httpx.MockTransport(lambda _: answer)) as sync:
        member = Member(sync, "r", "w", "planner", "http://here")
        for ask in (member.declared, member.heartbeats):
            with pytest.raises(type(refusal)) as raised:
                await ask()
            assert _report("planner-server", raised.value) == 2
            assert capsys.readouterr().err == f"planner-server: {refusal.detail}\n"
