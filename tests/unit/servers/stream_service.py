"""The sync service's stream calls, faked at the wire, so that a test can lose a lease when it wants to."""

import json
from dataclasses import dataclass, field
from typing import Any

import httpx

from shared.errors import LeaseLost, TandemError

CHECKSUM = "0" * 64


@dataclass
class StreamService:
    """`steps` deliveries in order. `refuse` maps a call's name to the errors it answers next, one each."""

    steps: int = 2
    ttl_s: float = 1000.0
    epoch: int = 0
    acked: int = 0
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    refuse: dict[str, list[TandemError]] = field(default_factory=dict)

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self._answer)

    def names(self) -> list[str]:
        return [name for name, _ in self.calls if name != "renew"]

    def bodies(self, name: str) -> list[dict[str, Any]]:
        return [body for call, body in self.calls if call == name]

    def _answer(self, request: httpx.Request) -> httpx.Response:
        name = "publish" if "/policies/" in request.url.path else request.url.path.rpartition(":")[2]
        body = json.loads(request.content)
        self.calls.append((name, body | {"path": request.url.path}))
        if self.refuse.get(name):
            error = self.refuse[name].pop(0)
            return httpx.Response(error.status, json=error.problem())
        if "epoch" in body and body["epoch"] != self.epoch:
            return httpx.Response(409, json=LeaseLost().problem())
        return httpx.Response(200, json=getattr(self, f"_{name}")(body))

    def _resume(self, body: dict[str, Any]) -> dict[str, Any]:
        self.epoch += 1
        self.acked = body["step"]
        return {"epoch": self.epoch}

    def _lease(self, body: dict[str, Any]) -> dict[str, Any]:
        step = self.acked + 1
        if step > self.steps:
            return {"delivery": None, "finished": True, "ttl_s": self.ttl_s}
        view = {"id": "00000000-0000-0000-0000-000000000000", "run": "r", "role": "planner", "attempt": 1}
        return {"delivery": view | {"step": step, "epoch": self.epoch, "groups": []}, "ttl_s": self.ttl_s}

    def _renew(self, body: dict[str, Any]) -> dict[str, Any]:
        return {"ttl_s": self.ttl_s}

    def _ack(self, body: dict[str, Any]) -> dict[str, Any]:
        self.acked = body["step"]
        return {}

    def _release(self, body: dict[str, Any]) -> dict[str, Any]:
        return {}

    def _publish(self, body: dict[str, Any]) -> dict[str, Any]:
        return {}
