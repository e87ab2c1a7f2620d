"""The sampler's process: whatever waits is drained into one batch; weights change between batches only."""

import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from shared.errors import InvalidInput, TandemError
from shared.policy.channel import Channel
from shared.policy.checkpoints import saved_version
from shared.policy.folder import check_model_folder
from shared.policy.framing import Message
from shared.policy.model import DTYPES, load_model, parameter_count, resolve_device, set_threads
from shared.policy.sampling import Prompt, Turn, sample
from shared.policy.weights import FILE, file_checksum, load_weights

WINDOW_S = 0.002
"""How long an idle sampler waits for company after a first request: a batch of two costs little more than one."""
CHECKPOINTS = 2
"""Evaluation checkpoints that are held beside the live weights."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request in the queue. Those that agree in `group`, (checkpoint, temperature), can share a batch."""

    prompt: Prompt
    group: tuple[str | None, float]


class SamplerService:
    """Serves `generate`, `load` and `statistics`. One thread; the queue is the dict of what waits, oldest first."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._device = resolve_device(settings["device"])
        set_threads(settings["threads"], "sampler", self._device)
        self._dtype = DTYPES[settings["dtype"]]
        self._max_batch: int = settings["max_batch"]
        self._live = load_model(Path(settings["model"]), self._device, self._dtype)
        self._version = {"epoch": 0, "step": 0, "updates": 0}
        self._checkpoints: OrderedDict[tuple[str, int], PreTrainedModel] = OrderedDict()
        self._generator = torch.Generator(self._device)
        self._generator.seed() if settings["seed"] is None else self._generator.manual_seed(settings["seed"])
        self._waiting: dict[int, Waiting] = {}
        self._counts = {"requests": 0, "batches": 0, "largest_batch": 0, "prompt_tokens": 0, "tokens": 0, "busy_s": 0.0}
        self.info = {
            "device": str(self._device),
            "threads": torch.get_num_threads(),
            "parameters": parameter_count(self._live),
        }

    def run(self, channel: Channel) -> None:
        """Consumes requests; waits for one, then at most WINDOW_S for more; produces a reply to each."""
        while True:
            for message in self._gather(channel):
                reply = self._accept(message)
                if reply:
                    channel.send(reply)
            batch = self._next_batch()
            if batch:
                channel.send(*self._generate(batch))

    def _gather(self, channel: Channel) -> list[Message]:
        if self._waiting:
            return channel.receive(0.0)
        messages = channel.receive()
        deadline = time.monotonic() + WINDOW_S
        while len(messages) < self._max_batch and (left := deadline - time.monotonic()) > 0:
            messages += channel.receive(left)
        return messages

    def _accept(self, message: Message) -> Message | None:
        if "cancel" in message:
            self._waiting.pop(message["cancel"], None)
            return None
        id_, method, arguments = message["id"], message["method"], message["arguments"]
        try:
            if method == "generate":
                self._waiting[id_] = self._checked(arguments)
                return None
            if method == "load":
                return {"id": id_, "result": self._load(Path(arguments["folder"]), arguments["version"])}
            return {"id": id_, "result": self._counts | {"waiting": len(self._waiting)}}
        except TandemError as error:
            return {"id": id_, "error": error.problem()}

    def _checked(self, arguments: dict[str, Any]) -> Waiting:
        """Refuse what would fail inside a batch, and take the others down with it."""
        ids, new = arguments["token_ids"], arguments["max_new_tokens"]
        config = self._live.config
        if not ids or min(ids) < 0 or max(ids) >= config.vocab_size:
            raise InvalidInput(f"a prompt has at least one token id, each in 0..{config.vocab_size - 1}")
        limit = getattr(config, "max_position_embeddings", None)
        if new < 1 or (limit and len(ids) + new > limit):
            raise InvalidInput(f"{len(ids)} prompt tokens and {new} new ones do not fit the model's {limit} positions")
        group = (arguments["checkpoint"], float(arguments["temperature"]))
        return Waiting(Prompt(ids, new, frozenset(arguments["stop_ids"])), group)

    def _next_batch(self) -> dict[int, Waiting]:
        """The oldest request, and those that can go with it."""
        if not self._waiting:
            return {}
        group = next(iter(self._waiting.values())).group
        same = [id_ for id_, request in self._waiting.items() if request.group == group]
        return {id_: self._waiting.pop(id_) for id_ in same[: self._max_batch]}

    def _generate(self, batch: dict[int, Waiting]) -> list[Message]:
        started = time.perf_counter()
        prompts = [request.prompt for request in batch.values()]
        checkpoint, temperature = next(iter(batch.values())).group
        try:
            model, version = self._model(checkpoint)
        except TandemError as error:
            return [{"id": id_, "error": error.problem()} for id_ in batch]
        turns = sample(model, prompts, temperature, self._generator)
        self._count(prompts, turns, time.perf_counter() - started)
        return [{"id": id_, "result": _reply(turn, version)} for id_, turn in zip(batch, turns, strict=True)]

    def _model(self, checkpoint: str | None) -> tuple[PreTrainedModel, dict[str, int]]:
        if checkpoint is None:
            return self._live, self._version
        folder = Path(checkpoint)
        check_model_folder(folder)
        key = checkpoint, folder.stat().st_mtime_ns  # a resumed run may save the same step again
        if key not in self._checkpoints:
            while len(self._checkpoints) >= CHECKPOINTS:
                self._checkpoints.popitem(last=False)
            self._checkpoints[key] = load_model(folder, self._device, self._dtype)
        self._checkpoints.move_to_end(key)
        return self._checkpoints[key], saved_version(folder).model_dump()

    def _load(self, folder: Path, version: dict[str, int]) -> dict[str, Any]:
        load_weights(self._live, folder)
        self._version = version
        return {"checksum": file_checksum(folder / FILE)}

    def _count(self, prompts: list[Prompt], turns: list[Turn], seconds: float) -> None:
        self._counts["requests"] += len(turns)
        self._counts["batches"] += 1
        self._counts["largest_batch"] = max(self._counts["largest_batch"], len(turns))
        self._counts["prompt_tokens"] += sum(len(prompt.token_ids) for prompt in prompts)
        self._counts["tokens"] += sum(len(turn.token_ids) for turn in turns)
        self._counts["busy_s"] += seconds


def _reply(turn: Turn, version: dict[str, int]) -> dict[str, Any]:
    return {"token_ids": turn.token_ids, "logprobs": turn.logprobs, "finish": turn.finish, "version": version}
