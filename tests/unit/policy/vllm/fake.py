"""A vLLM server at the wire: the routes that are used, and the ways in which one can fail."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

from fastapi import Body, FastAPI, Request, Response
from fastapi.responses import JSONResponse

from shared.policy.vllm.folder import head_bytes

ROOM = 64


class FakeVllm:
    """Samples 7 each time, at `logprob`. What is to fail is set from outside."""

    def __init__(self) -> None:
        self.version, self.head, self.logprob = "default", "initial", -1.0
        self.tied = self.keeps_head = self.keeps_version = self.keeps_prefixes = self.refuses = self.down = False
        self.finish = "length"
        self.held: asyncio.Event | None = None
        self.generating = asyncio.Event()
        self.calls: list[str] = []
        self.app = FastAPI()
        self.app.middleware("http")(self._log)
        self.app.get("/health")(lambda: Response(status_code=503 if self.down else 200))
        self.app.get("/version")(lambda: {"version": "0.32.0"})
        self.app.get("/v1/models")(lambda: {"data": [{"id": "m", "max_model_len": ROOM}]})
        self.app.get("/weight_info")(lambda: {"weight_version": self.version})
        self.app.post("/pause")(lambda mode: {"status": "paused"})
        self.app.post("/resume")(lambda: {"status": "resumed"})
        self.app.post("/reset_prefix_cache")(lambda: {"success": not self.keeps_prefixes})
        self.app.post("/collective_rpc")(self._reload)
        self.app.post("/update_weight_version")(self._name)
        self.app.post("/weight_checker")(self._digests)
        self.app.post("/inference/v1/generate")(self._generate)

    async def _log(self, request: Request, call_next: Any) -> Response:
        self.calls.append(request.url.path)
        return await call_next(request)

    async def _reload(self, method: str = Body(), kwargs: dict = Body()) -> Any:
        assert method == "reload_weights"
        if self.refuses:
            return JSONResponse({"error": {"message": "Worker failed: out of memory"}}, 500)
        if not self.keeps_head:
            self.head = hashlib.sha256(b"".join(head_bytes(Path(kwargs["weights_path"])))).hexdigest()
        return {"results": [None]}

    async def _name(self, new_version: str = Body(embed=True)) -> Any:
        self.version = self.version if self.keeps_version else new_version
        return {"success": True}

    async def _digests(self, action: str = Body(embed=True)) -> Any:
        assert action == "checksum"
        head = {} if self.tied else {"dp0:pp0:pcp0:tp0:lm_head.weight": self.head}
        return {"checksums": {"dp0:pp0:pcp0:tp0:model.norm.weight": "n"} | head}

    async def _generate(self, body: dict = Body()) -> Any:
        version, count = self.version, body["sampling_params"]["max_tokens"]
        self.generating.set()
        if self.held:
            await self.held.wait()
        token = {"token_id": 7, "logprob": self.logprob}
        choice = {"token_ids": [7] * count, "logprobs": {"content": [token] * count}, "finish_reason": self.finish}
        return {"choices": [choice | {"weight_versions": [{"version": version, "start": 0, "end": count}]}]}
