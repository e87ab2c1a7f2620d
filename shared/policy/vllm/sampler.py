"""The sampler that is a client of a vLLM server.

A version is pinned: turns that run end under the weights that they began with, and those that come meanwhile wait. The
server says which weights sampled each token, and is not believed where it names none of ours.
"""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog

from shared.errors import DeadlineExceeded, InvalidInput, TandemError, Unavailable
from shared.policy.child import CLOSE_S
from shared.policy.config import PolicyConfig
from shared.policy.sampler import GENERATE_S
from shared.policy.types import Completion, SamplingParams
from shared.policy.vllm.api import VllmApi
from shared.policy.vllm.config import VllmConfig
from shared.policy.vllm.connect import Server, carrier, start
from shared.policy.vllm.evaluator import Evaluator
from shared.policy.vllm.folder import parameter_count
from shared.policy.vllm.gate import Gate
from shared.policy.vllm.loader import Loader, named_version, version_name
from shared.policy.vllm.probe import GAPS, Probe, Reference
from shared.schemas.base import PolicyVersion

log = structlog.get_logger()

INITIAL = PolicyVersion(epoch=0, step=0, updates=0)


class VllmSampler:
    """The `SamplerProcess` protocol over a vLLM server. After a change of weights that fails, it samples no more."""

    def __init__(
        self, config: PolicyConfig, vllm: VllmConfig, api: VllmApi, server: Server, loader: Loader, evaluator: Evaluator
    ) -> None:
        self.info: dict[str, Any] = {}
        self.waiting = self.turns = self.tokens = 0
        """Turns that are asked for and not answered, turns that were, and the tokens sampled for them."""
        self.reference: Reference | None = None
        """The trainer, with which new weights are probed; None where this role does not train."""
        self._config, self._vllm = config, vllm
        self._api, self._server, self._loader, self._evaluator = api, server, loader, evaluator
        self._gate, self._places = Gate(), asyncio.Semaphore(config.max_batch)
        self._fault: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._counts = {"requests": 0, "prompt_tokens": 0, "tokens": 0, "loads": 0, "load_s": 0.0}
        self._closing = False

    @classmethod
    async def spawn(
        cls, config: PolicyConfig, vllm: VllmConfig, scratch: Path, logs: Path, threads: int
    ) -> "VllmSampler":
        """Start the server, or turn to the one at `url`; `ready` waits for it. `scratch`: where weights go through."""
        api, server = await start(config, vllm, scratch, logs / "vllm.log", threads)
        loader = Loader(api, config.model, carrier(vllm, scratch), vllm.sync_s)
        return cls(config, vllm, api, server, loader, Evaluator(config, logs / "evaluator.log", threads))

    @property
    def probes(self) -> bool:
        """Whether `load_weights` asks the trainer for its log-probs."""
        return self.reference is not None

    async def ready(self) -> None:
        """Wait until it serves the initial weights; Unavailable says why it ended, UserError what it was not given."""
        await self._server.ready()
        release = await self._api.release()
        self._model, self._room = await self._api.model()
        await self._api.resume()  # a client that ended during a change has left it paused
        await self._loader.load(self._config.model, INITIAL)
        bound = self._vllm.max_probe_gap or GAPS[self._config.dtype]
        self._probe = Probe(self._config.model, self._room, self._config.temperature, bound)
        parameters = await asyncio.to_thread(parameter_count, self._config.model)
        self.info = {"device": f"vLLM {release}", "threads": self._server.threads, "parameters": parameters}

    async def died(self) -> str:
        """Wait until it cannot go on, and say why. Does not return after `close`."""
        ends = [asyncio.ensure_future(end) for end in (self._failed(), self._server.died(), self._evaluator.died())]
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for end in ends:
                end.cancel()

    async def generate(
        self, prompt_ids: Sequence[int], params: SamplingParams, *, checkpoint: Path | None = None
    ) -> Completion:
        """Sample one turn. InvalidInput: ids that the model does not have, or more than a request may have."""
        self._check(prompt_ids, params)
        self.waiting += 1
        try:
            if checkpoint:
                turn = await self._evaluator.generate(prompt_ids, params, checkpoint)
            else:
                async with self._places, self._gate.turn():
                    turn = await self._sample(prompt_ids, params)
        finally:
            self.waiting -= 1
        self.turns += 1
        self.tokens += len(turn.token_ids)
        return turn

    async def load_weights(self, folder: Path, version: PolicyVersion) -> str:
        """Use the weights in `folder` once the turns that run have ended; returns the checksum of what was loaded.

        Conflict: the server did not load them, or its log-probs are not the trainer's. Nothing is sampled after that.
        """
        started = time.perf_counter()
        try:
            async with self._gate.change(self._vllm.sync_s):
                try:
                    checksum = await self._loader.load(folder, version)
                    if self.reference:
                        turn = await self._sample(self._probe.prompt, self._probe.params)
                        await self._probe.check(turn, self.reference)
                except BaseException as error:
                    self._fail(f"weights {version_name(version)} were not taken over: {_reason(error)}")
                    raise
        except TimeoutError:
            raise DeadlineExceeded(f"the turns of vLLM did not end within {self._vllm.sync_s:.0f} s") from None
        seconds = time.perf_counter() - started
        self._counts["loads"] += 1
        self._counts["load_s"] += seconds
        log.info("weights-loaded", version=version_name(version), seconds=seconds, **self._probe.gaps)
        return checksum

    async def statistics(self) -> dict[str, Any]:
        """Counts since the start, and the gap to the trainer at the last probe, in nats."""
        return self._counts | self._probe.gaps | {"waiting": self.waiting}

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """End what was started, within the bound. A server at `url` goes on."""
        self._closing = True
        await asyncio.gather(self._server.close(timeout_s), self._evaluator.close(timeout_s))
        await self._loader.close()

    def _check(self, prompt_ids: Sequence[int], params: SamplingParams) -> None:
        """vLLM shortens what does not fit, and says nothing."""
        needed, new = len(prompt_ids) + params.max_new_tokens, params.max_new_tokens
        if not prompt_ids or new < 1 or needed > self._room:
            raise InvalidInput(f"{len(prompt_ids)} prompt tokens and {new} new ones do not fit {self._room} positions")

    async def _sample(self, prompt_ids: Sequence[int], params: SamplingParams) -> Completion:
        if self._fault.done():
            raise Unavailable(self._fault.result())
        choice = await self._api.generate(self._model, list(prompt_ids), params, GENERATE_S)
        turn = Completion(
            token_ids=choice["token_ids"],
            logprobs=[token["logprob"] for token in choice["logprobs"]["content"]],
            version=self._version(choice),
            finish="stop" if choice["finish_reason"] == "stop" else "length",
        )
        self._counts["requests"] += 1
        self._counts["prompt_tokens"] += len(prompt_ids)
        self._counts["tokens"] += len(turn.token_ids)
        return turn

    def _version(self, choice: dict[str, Any]) -> PolicyVersion:
        """The version that sampled all tokens of a turn; where it is none of ours, somebody else was at the server."""
        names = {span["version"] for span in choice["weight_versions"] or []}
        version = named_version(names.pop()) if len(names) == 1 else None
        if choice["finish_reason"] not in ("stop", "length"):
            raise Unavailable(f"{self._api.where} gave a turn up: {choice['finish_reason']}")
        if version is None:
            self._fail(f"{self._api.where} samples from weights that it was not given here: it was started again")
            raise Unavailable(self._fault.result())
        return version

    def _fail(self, reason: str) -> None:
        if not self._fault.done():
            self._fault.set_result(reason)

    async def _failed(self) -> str:
        reason = await asyncio.shield(self._fault)
        if self._closing:
            await asyncio.Event().wait()
        return reason


def _reason(error: BaseException) -> str:
    return error.detail if isinstance(error, TandemError) else type(error).__name__
