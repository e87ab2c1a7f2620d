"""SyncClient: what it retries, what it raises, when it gives up. The wire is faked, the client is not."""

import asyncio

import httpx
import pytest
import stamina._core

from shared.client import SyncClient, retry
from shared.client.wire import FIRST_PAUSE_S, JITTER_S
from shared.errors import DeadlineExceeded, LeaseLost, NotFound, Overloaded, Unavailable
from shared.schemas.stream import StreamClaim

CLAIM = StreamClaim(worker="w", epoch=1)


def client(answers: list, **options) -> tuple[SyncClient, list[httpx.Request]]:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SyncClient("http://sync", transport=httpx.MockTransport(handler), **options), seen


def problem(error) -> httpx.Response:
    return httpx.Response(error.status, json=error.problem())


RENEWED = httpx.Response(200, json={"ttl_s": 30.0})


async def test_a_lost_connection_and_a_503_are_tried_again():
    sync, seen = client([httpx.ConnectError("no"), problem(Unavailable()), RENEWED])
    assert (await sync.renew("run", "planner", CLAIM)).ttl_s == 30.0
    assert len(seen) == 3
    assert len({request.content for request in seen}) == 1


async def test_a_conflict_is_raised_at_once_as_its_class():
    sync, seen = client([problem(LeaseLost("epoch 4 holds it"))])
    with pytest.raises(LeaseLost, match="epoch 4 holds it"):
        await sync.renew("run", "planner", CLAIM)
    assert len(seen) == 1


async def test_not_found_is_not_retried():
    sync, seen = client([problem(NotFound())])
    with pytest.raises(NotFound):
        await sync.run("nowhere")
    assert len(seen) == 1


async def test_it_gives_up_and_says_where_it_called():
    sync, _ = client([httpx.ConnectError("refused")], retry_for_s=0.2)
    with pytest.raises(Unavailable, match="http://sync"):
        await sync.run("run")


@pytest.mark.parametrize("fault", [problem(Overloaded("full")), problem(Unavailable("full")), httpx.ReadError("full")])
async def test_whatever_lasts_beyond_the_deadline_is_one_error_that_says_what_it_was(fault):
    sync, _ = client([fault], retry_for_s=0.1)
    with pytest.raises(DeadlineExceeded, match=r"http://sync .* 0\.1 s: .*full"):
        await sync.run("run")


async def test_an_answer_that_never_comes_ends_with_the_deadline():
    async def silence(_: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    sync = SyncClient("http://sync", transport=httpx.MockTransport(silence), retry_for_s=0.05)
    with pytest.raises(DeadlineExceeded, match="no answer"):
        await sync.run("run")


async def test_an_attempt_that_hangs_is_given_up_and_sent_again():
    arrived = 0

    async def once_silent(_: httpx.Request) -> httpx.Response:
        nonlocal arrived
        arrived += 1
        if arrived == 1:
            await asyncio.Event().wait()
        return RENEWED

    sync = SyncClient("http://sync", transport=httpx.MockTransport(once_silent), timeout_s=0.02)
    assert (await sync.renew("run", "planner", CLAIM)).ttl_s == 30.0


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses between attempts, which are not waited for."""
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    monkeypatch.setattr(stamina._core, "_smart_sleep", pause)
    return paused


@pytest.mark.parametrize("status", [429, 503])
async def test_the_server_says_when_to_come_back(status: int, pauses: list[float]):
    date = {"date": "Mon, 30 Nov 2026 05:00:00 GMT", "retry-after": "Mon, 30 Nov 2026 05:00:07 GMT"}
    asked = [httpx.Response(status, headers={"retry-after": "3"}), httpx.Response(status, headers=date)]
    sync, seen = client([*asked, RENEWED])
    await sync.renew("run", "planner", CLAIM)
    assert len(seen) == 3
    assert 3 <= pauses[0] <= 3 * (1 + retry.SPREAD)
    assert 7 <= pauses[1] <= 7 * (1 + retry.SPREAD)


@pytest.mark.parametrize("value", ["soon", "", "-1", "Mon, 30 Nov 2026 05:00:07 GMT", "\u0663"])
async def test_what_cannot_be_read_as_a_time_leaves_the_pause_to_the_client(value: str, pauses: list[float]):
    sync, _ = client([httpx.Response(429, headers={"retry-after": value.encode()}), RENEWED])
    await sync.renew("run", "planner", CLAIM)
    assert 0 <= pauses[0] <= FIRST_PAUSE_S + JITTER_S


async def test_nobody_waits_for_a_time_beyond_the_deadline(pauses: list[float]):
    sync, seen = client([httpx.Response(503, text="closed", headers={"retry-after": "3600"})])
    with pytest.raises(DeadlineExceeded, match="closed"):
        await sync.run("run")
    assert (len(seen), pauses) == (1, [])


async def test_an_error_that_is_not_json_is_still_one_of_ours():
    sync, _ = client([httpx.Response(500, text="<html>proxy</html>")])
    with pytest.raises(Exception, match="proxy"):
        await sync.run("run")


@pytest.mark.parametrize("status", [429, 502, 503, 504])
@pytest.mark.parametrize("body", [{"text": "<html>proxy</html>"}, {"json": ["proxy"]}, {"json": {"detail": "proxy"}}])
async def test_a_proxy_that_cannot_answer_is_an_unavailable_service(status: int, body: dict, pauses: list[float]):
    sync, seen = client([httpx.Response(status, **body), RENEWED])
    await sync.renew("run", "planner", CLAIM)
    assert len(seen) == 2


async def test_a_reason_reaches_the_service_as_it_is():
    sync, seen = client([problem(NotFound())])
    with pytest.raises(NotFound):
        await sync.fail("run", "a&b=c #d")
    assert dict(seen[0].url.params) == {"reason": "a&b=c #d"}
