"""What a station is put together with."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import httpx
import pytest

from shared.schemas.stream import StreamClaim
from shared.serving import station as module
from shared.serving.station import renewals_client, station

LEASE_TTL_S = 30.0


async def test_one_stalled_renewal_leaves_the_lease_time_for_another(monkeypatch: pytest.MonkeyPatch):
    assert module.RENEWAL_RETRY_S < LEASE_TTL_S / 2
    monkeypatch.setattr(module, "RENEWAL_TIMEOUT_S", module.RENEWAL_TIMEOUT_S / 250)
    seen: list[httpx.Request] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if len(seen) == 1:
            await asyncio.Event().wait()
        return httpx.Response(200, json={"ttl_s": LEASE_TTL_S})

    async with renewals_client("http://sync", None, httpx.MockTransport(answer)) as renewals:
        assert (await renewals.renew("r", "planner", StreamClaim(worker="w", epoch=1))).ttl_s == LEASE_TTL_S
    assert len(seen) == 2


async def test_the_policy_starts_before_the_number_of_steps_is_known(monkeypatch: pytest.MonkeyPatch):
    start = AsyncMock(return_value=MagicMock(info={"device": "cpu"}, close=AsyncMock()))
    for name in ("load_environment", "load_tokenizer", "ChatFormat", "check_positions"):
        monkeypatch.setattr(module, name, MagicMock())
    monkeypatch.setattr(module, "compare_log_probs", AsyncMock())
    monkeypatch.setattr(module.Policy, "start", start)
    config: Any = SimpleNamespace(
        environment="e", environment_options={}, policy=SimpleNamespace(model="m"), limits=MagicMock(), sync_url="http://sync",
        sync_key_file=None,
        folder=Path("nowhere"), run="r", worker="w", url="http://here", trains=True,
    )  # fmt: skip
    async with station(config, "planner", MagicMock(), httpx.MockTransport(MagicMock())) as parts:
        assert parts.member.device == "cpu"
    assert start.await_args is not None
    assert start.await_args.kwargs["total_steps"] is None
