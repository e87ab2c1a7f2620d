"""SyncClient: what it retries, what it raises, when it gives up. The wire is faked, the client is not."""

import httpx
import pytest

from shared.client import SyncClient
from shared.errors import LeaseLost, NotFound, Overloaded, TandemError, Unavailable
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


async def test_overload_that_lasts_is_raised_as_overloaded():
    sync, _ = client([problem(Overloaded())], retry_for_s=0.2)
    with pytest.raises(Overloaded):
        await sync.run("run")


async def test_an_error_that_is_not_json_is_still_one_of_ours():
    sync, _ = client([httpx.Response(500, text="<html>proxy</html>")])
    with pytest.raises(Exception, match="proxy"):
        await sync.run("run")


@pytest.mark.parametrize(
    ("status", "error"), [(429, Overloaded), (502, Unavailable), (503, Unavailable), (504, Unavailable)]
)
@pytest.mark.parametrize("body", [{"text": "<html>proxy</html>"}, {"json": ["proxy"]}, {"json": {"detail": "proxy"}}])
async def test_a_proxy_that_cannot_answer_is_an_unavailable_service(status: int, error: type[TandemError], body: dict):
    sync, seen = client([httpx.Response(status, **body)], retry_for_s=0.1)
    with pytest.raises(error, match="proxy"):
        await sync.renew("run", "planner", CLAIM)
    assert len(seen) > 1


async def test_a_reason_reaches_the_service_as_it_is():
    sync, seen = client([problem(NotFound())])
    with pytest.raises(NotFound):
        await sync.fail("run", "a&b=c #d")
    assert dict(seen[0].url.params) == {"reason": "a&b=c #d"}
