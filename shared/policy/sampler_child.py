"""The sampler's process: requests join and leave between tokens, and new weights come between tokens."""

import time
from collections.abc import Hashable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from shared.errors import Conflict, InvalidInput, TandemError, Unavailable, UserError
from shared.policy.channel import Channel
from shared.policy.checkpoint_engines import CheckpointEngines
from shared.policy.checkpoint_queue import CheckpointQueue
from shared.policy.engine import Counts, Engine
from shared.policy.framing import Message
from shared.policy.model import DTYPES, load_model, parameter_count, resolve_device, set_threads
from shared.policy.sampling import check_sampling
from shared.policy.turns import Prompt, Turn
from shared.policy.weights import FILE, file_checksum, load_weights

FULL = "the sampler's GPU is full; a smaller policy.cache_mib or policy.max_batch helps"


class SamplerService:
    """Serves `generate`, `load` and `statistics` on one thread; what is asked meanwhile is read after each token."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._device = resolve_device(settings["device"])
        set_threads(settings["threads"], "sampler", self._device)
        self._dtype = DTYPES[settings["dtype"]]
        self._max_batch: int = settings["max_batch"]
        self._cache_bytes: int = settings["cache_bytes"]
        self._generator = torch.Generator(self._device)
        self._generator.seed() if settings["seed"] is None else self._generator.manual_seed(settings["seed"])
        self._counts, self._requests, self._busy_s = Counts(), 0, 0.0
        self._model = self._load_model(Path(settings["model"]))
        check_sampling(self._model)
        self._live = self._engine(self._model, {"epoch": 0, "step": 0, "updates": 0})
        self._checkpoints = CheckpointEngines(self._load_model, self._engine)
        self._parked = CheckpointQueue(self._checkpoints)
        self.info = {
            "device": str(self._device),
            "threads": torch.get_num_threads(),
            "parameters": parameter_count(self._model),
        }

    def run(self, channel: Channel) -> None:
        """Consumes requests; waits for one only where none is in flight; produces a reply to each."""
        while True:
            replies = [self._accept(message) for message in channel.receive(0.0 if self._unanswered else None)]
            refused = [_error(id_, error) for id_, error in self._parked.admit()]
            channel.send(*filter(None, replies), *refused, *self._step())

    @property
    def _unanswered(self) -> int:
        return len(self._parked) + sum(engine.unanswered for engine in self._engines())

    def _engines(self) -> list[Engine]:
        return [self._live, *self._checkpoints.all()]

    def _accept(self, message: Message) -> Message | None:
        if "cancel" in message:
            self._parked.cancel(message["cancel"])
            for engine in self._engines():
                engine.cancel(message["cancel"])
            return None
        id_, method, arguments = message["id"], message["method"], message["arguments"]
        try:
            if method == "generate":
                return self._generate(id_, arguments)
            if method == "load":
                return {"id": id_, "result": self._load(Path(arguments["folder"]), arguments["version"])}
            return {"id": id_, "result": self._statistics()}
        except TandemError as error:
            return _error(id_, error)

    def _generate(self, id_: int, arguments: dict[str, Any]) -> None:
        """Refuse what would fail inside a batch, and take the others down with it."""
        ids, new = arguments["token_ids"], arguments["max_new_tokens"]
        config = self._model.config
        if not ids or min(ids) < 0 or max(ids) >= config.vocab_size:
            raise InvalidInput(f"a prompt has at least one token id, each in 0..{config.vocab_size - 1}")
        limit = getattr(config, "max_position_embeddings", None)
        if new < 1 or (limit and len(ids) + new > limit):
            raise InvalidInput(f"{len(ids)} prompt tokens and {new} new ones do not fit the model's {limit} positions")
        prompt = Prompt(ids, new, frozenset(arguments["stop_ids"]), float(arguments["temperature"]))
        if arguments["checkpoint"] is None:
            self._live.add(id_, prompt)
        else:
            self._parked.add(id_, Path(arguments["checkpoint"]), prompt)

    def _step(self) -> list[Message]:
        started = time.perf_counter()
        replies = [reply for engine in self._engines() if engine.unanswered for reply in self._turns(engine)]
        self._busy_s += time.perf_counter() - started
        return replies

    def _turns(self, engine: Engine) -> list[Message]:
        """What one engine's step ended. Its fault is the end of its own requests, which may be asked again."""
        try:
            ended = engine.step()
        except (TandemError, torch.OutOfMemoryError) as error:
            fault = error if isinstance(error, TandemError) else Unavailable(f"{FULL}: {str(error).splitlines()[0]}")
            return [_error(id_, fault) for id_ in engine.give_up()]
        self._requests += len(ended)
        return [{"id": id_, "result": _reply(turn)} for id_, turn in ended]

    def _load_model(self, folder: Path) -> PreTrainedModel:
        return load_model(folder, self._device, self._dtype)

    def _engine(self, model: PreTrainedModel, version: dict[str, int]) -> Engine:
        return Engine(model, self._max_batch, self._cache_bytes, self._generator, version, self._counts)

    def _load(self, folder: Path, version: dict[str, int]) -> dict[str, Any]:
        try:
            load_weights(self._model, folder)
        except UserError as error:  # nobody's mistake: the trainer has just written them
            raise Conflict(f"the sampler keeps the weights that it has: {error.detail}") from None
        self._live.renew(version)
        return {"checksum": file_checksum(folder / FILE)}

    def _statistics(self) -> dict[str, Any]:
        return asdict(self._counts) | {
            "requests": self._requests,
            "busy_s": self._busy_s,
            "waiting": self._unanswered,
        }


def _error(id_: Hashable, error: TandemError) -> Message:
    return {"id": id_, "error": error.problem()}


def _reply(turn: Turn) -> dict[str, Any]:
    oldest = min((version for _, version in turn.spans), key=lambda version: version["updates"])
    spans = turn.spans if len(turn.spans) > 1 else []
    return {
        "token_ids": turn.token_ids,
        "logprobs": turn.logprobs,
        "finish": turn.finish,
        "version": oldest,
        "spans": spans,
    }
