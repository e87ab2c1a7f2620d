"""What every server counts of its requests, and how it names them."""

from collections.abc import AsyncGenerator

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from fastapi.responses import Response

from shared.http.admission import Lane, install_admission
from shared.http.guard import OPEN, Guard, guarded
from shared.http.metrics import HttpMetrics, install_metrics
from shared.http.problems import install_problems
from shared.http.requests import install_requests


@pytest.fixture
async def http() -> AsyncGenerator[httpx.AsyncClient]:
    """A client of an app with a route behind a prefix, one that fails, and one that answers 503."""
    app, router = FastAPI(openapi_url=None), APIRouter(prefix="/v1")

    @router.get("/things/{thing}", dependencies=[OPEN])
    async def thing(thing: str) -> str:
        return thing

    @router.get("/broken", dependencies=[OPEN])
    async def broken() -> str:
        raise RuntimeError("a fault of ours")

    @router.get("/away", dependencies=[OPEN])
    async def away() -> Response:
        return Response(status_code=503)

    app.include_router(router)
    install_problems(app)
    lane = Lane("concurrent", 8)
    lane.refused = 3
    install_admission(app, [lane], lambda _: lane)
    install_metrics(app, HttpMetrics())
    install_requests(app)
    guarded(app, Guard(None))
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        yield client


async def scrape(http: httpx.AsyncClient) -> dict[str, float]:
    """Each sample by its name and labels."""
    lines = (await http.get("/metrics")).text.splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


async def test_requests_are_counted_by_the_route_that_was_declared(http: httpx.AsyncClient) -> None:
    for path in ("/v1/things/one", "/v1/things/two", "/v1/nothing/here", "/v1/broken"):
        await http.get(path)
    await http.request("BREW", "/v1/things/one")
    found = await scrape(http)
    counted = {name: value for name, value in found.items() if name.startswith("tandem_http_requests_total")}
    assert counted == {
        'tandem_http_requests_total{method="GET",route="/v1/things/{thing}",status="200"}': 2,
        'tandem_http_requests_total{method="GET",route="unmatched",status="404"}': 1,
        'tandem_http_requests_total{method="GET",route="/v1/broken",status="500"}': 1,
        'tandem_http_requests_total{method="other",route="/v1/things/{thing}",status="405"}': 1,
    }
    assert found['tandem_http_request_seconds_count{method="GET",route="/v1/things/{thing}"}'] == 2
    assert found["tandem_http_in_flight"] == 1, "the scrape itself"
    assert found['tandem_http_rejected_total{lane="concurrent"}'] == 3
    assert found["process_resident_memory_bytes"] > 0


async def test_a_request_keeps_a_sane_id_and_is_given_one_otherwise(http: httpx.AsyncClient) -> None:
    given = await http.get("/v1/things/one", headers={"x-request-id": "trace-7.a_B"})
    assert given.headers["x-request-id"] == "trace-7.a_B"
    for insane in ("", "a b", "x" * 65, "<script>", "é".encode()):
        response = await http.get("/v1/things/one", headers={"x-request-id": insane})
        assert len(response.headers["x-request-id"]) == 36


async def test_a_fault_of_ours_carries_the_id_in_its_problem_and_its_log_line(
    http: httpx.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    response = await http.get("/v1/broken", headers={"x-request-id": "trace-8"})
    assert (response.status_code, response.headers["x-request-id"]) == (500, "trace-8")
    assert response.json()["request_id"] == "trace-8"
    assert "a fault of ours" not in response.text
    out, err = capsys.readouterr()
    assert "trace-8" in out + err


async def test_each_log_line_of_a_request_has_its_id(
    http: httpx.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    await http.get("/v1/away", headers={"x-request-id": "trace-9"})
    out, err = capsys.readouterr()
    (line,) = [line for line in (out + err).splitlines() if "answered" in line]
    assert "trace-9" in line
    assert "503" in line
