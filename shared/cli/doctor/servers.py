"""The servers: do they answer, are they ready, do their clocks agree with ours."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx

from shared.cli.doctor.finding import Finding, fail, ok, warn
from shared.schemas import protocol

ANSWER_S = 10.0
APART_S = 5.0
"""Clocks that are further apart make logs hard to read; nothing else depends on them."""


def server(name: str, url: str) -> Iterator[Finding]:
    """The server called `name`: each check of its `/readyz`, and its clock."""
    try:
        response = httpx.get(f"{url}/readyz", timeout=ANSWER_S, trust_env=False)
    except (httpx.TransportError, httpx.InvalidURL) as error:
        return (yield fail(name, f"nothing answers at {url}: {error}", "start it, or say where it is; open its port"))
    if protocol.HEADER not in response.headers:
        return (yield fail(name, f"something else answers at {url}", "choose another port, or another URL"))
    yield from _checks(name, url, response)
    yield clock(name, response.headers.get("date", ""), datetime.now(UTC))


def _checks(name: str, url: str, response: httpx.Response) -> Iterator[Finding]:
    try:
        checks = json.loads(response.content)["checks"]
    except (ValueError, KeyError, TypeError):
        return (yield fail(name, f"{url}/readyz answers {response.status_code}", "see the server's log"))
    yield ok(name, f"answers at {url}")
    for check, said in checks.items():
        what = f"{name}: {check}"
        yield ok(what, said) if said == "ok" else fail(what, said, "see the server's log and docs/operations.md")


def clock(name: str, header: str, now: datetime) -> Finding:
    """How far the clock of an answer's Date is from ours; by second, as the header is."""
    what = f"{name}: clock"
    try:
        there = parsedate_to_datetime(header)
    except (TypeError, ValueError):
        return warn(what, "the server says no time", "see whether a proxy removes the header Date")
    return apart(what, there, now)


def apart(what: str, there: datetime, now: datetime) -> Finding:
    """How far two clocks are apart."""
    seconds = abs((there - now).total_seconds())
    if seconds <= APART_S:
        return ok(what, "agrees with this machine's")
    return warn(what, f"{seconds:.0f} s from this machine's", "let both keep time by NTP: logs are compared by it")
