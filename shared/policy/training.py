"""One optimiser step on one batch, in two phases: accumulate the gradient, then apply or discard it.

Between the two the server asks whether the stream is still its own, so that a lost lease costs no weights.
"""

import math
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial, reduce

import torch
from torch import Tensor
from transformers import PreTrainedModel

from shared.errors import InvalidInput, TandemError
from shared.mgrpo.objective import denominator, merge, objective
from shared.policy.adapters import add_adapters, without_adapters
from shared.policy.batches import Example, MicroBatch, collate, split
from shared.policy.config import TrainerConfig
from shared.policy.logprobs import trained_logprobs
from shared.policy.memory import MemoryPlan, plan_memory
from shared.policy.optimizer import apply_step, build_optimizer, clip, zero_frozen
from shared.policy.recompute import recomputable_layers, recomputed_layers
from shared.policy.schedule import learning_rate


class Trainer:
    """Trains `model` in place.

    `total_steps`: over which the learning rate falls. `reference`: the frozen model that the KL is towards, where the
    objective has one; with LoRA it is the base, and none is given. `autocast`: run matrix products in bfloat16.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        config: TrainerConfig,
        *,
        total_steps: int | None = None,
        temperature: float = 1.0,
        reference: PreTrainedModel | None = None,
        autocast: bool = False,
    ) -> None:
        if config.gradient_checkpointing:
            recomputable_layers(model)  # refused now, not in the first step
        if config.lora:
            if reference is not None:
                raise InvalidInput("with LoRA the reference is the base model: give no other")
            add_adapters(model, config.lora)
            reference = model if config.objective.kl_coef else None
        self.model = model
        self.config = config
        self.optimizer = build_optimizer(model, config)
        self._total_steps = total_steps
        self._temperature = temperature
        self._reference = reference
        self._autocast = autocast
        self._accumulated: int | None = None

    def accumulate(self, examples: Sequence[Example], step: int) -> dict[str, float] | None:
        """The gradient of the whole batch, micro-batch by micro-batch; None where no row is live.

        Each distinct live row runs once, weighted by its multiplicity; rows of dead groups count in the denominator
        and run through no model. Returns the statistics of the batch, each token counted by its row's multiplicity.
        TandemError: the loss is not finite, or the sampler's log-probs are too far from the model's.
        """
        self.discard()
        started = time.perf_counter()
        counts = [sum(example.mask) for example in examples]
        whole = denominator([e.multiplicity for e in examples], counts, self.config.objective)
        live = [example for example in examples if not example.dead]
        if not live:
            return None
        run: list[tuple[Tensor, dict[str, Tensor]]] = []
        parts = split(live, self.config.micro_batch_tokens)
        with recomputed_layers(self.model) if self.config.gradient_checkpointing else nullcontext():
            for part in self._share(parts):
                run.append(self._micro_batch(collate(part, self.model.device), whole))
        loss, sums = self._total(*_read(run))
        if not math.isfinite(loss):
            self.discard()
            raise TandemError(f"the loss of step {step} is {loss}; the weights were left as they were")
        statistics = _statistics(sums)
        self._check_gap(statistics["gap_mean"], step)
        self._accumulated = step
        return statistics | {
            "loss": loss,
            "rows": len(live),
            "dead_rows": len(examples) - len(live),
            "micro_batches": len(parts),
            "tokens": sum(len(example.token_ids) for example in live),
            "trained_tokens": sum(sum(example.mask) for example in live),
            "seconds": time.perf_counter() - started,
        }

    def apply(self, step: int) -> dict[str, float]:
        """Take the optimiser step that `accumulate` prepared for this step. TandemError: its norm is not finite."""
        if self._accumulated != step:
            raise InvalidInput(f"there is no accumulated gradient of step {step} to apply")
        if self._total_steps is None:
            raise InvalidInput("the number of steps of this run is not known: schedule it before the first update")
        norm = self._bound_gradient()
        if not math.isfinite(norm):
            self.discard()
            raise TandemError(f"the gradient norm of step {step} is {norm}; the weights were left as they were")
        lr = learning_rate(step, self._total_steps, self.config)
        apply_step(self.optimizer, lr)
        self._accumulated = None
        return {"gradient_norm": norm, "learning_rate": lr}

    @torch.no_grad()
    def logprobs(self, token_ids: list[int], first: int) -> list[float]:
        """Log-probs of the tokens from place `first` on, as an update computes them: a sampler's must be close."""
        mask = [int(place >= first) for place in range(len(token_ids))]
        row = Example("probe", token_ids, mask, [0.0] * len(mask), advantage=0.0, multiplicity=1.0)
        return self._logprobs(self.model, collate([row], self.model.device))[0, first:].tolist()

    def plan_memory(self) -> MemoryPlan:
        """What a step takes of the device's memory."""
        reference = None if self._reference is self.model else self._reference
        return plan_memory(self.model, self.config, partial(self._logprobs, self.model), reference)

    def schedule(self, total_steps: int) -> None:
        """The run has that many steps: a server may start before its run is declared."""
        self._total_steps = total_steps

    def discard(self) -> None:
        """Drop the gradient; the weights stay as they are."""
        self._accumulated = None
        self.optimizer.zero_grad(set_to_none=True)

    def _share(self, parts: list[list[Example]]) -> list[list[Example]]:
        """The micro-batches that this process runs. A shard of a trainer overrides this and the next two."""
        return parts

    def _total(self, loss: float, sums: dict[str, float]) -> tuple[float, dict[str, float]]:
        """The loss and the sums of the whole batch, from those of this process."""
        return loss, sums

    def _bound_gradient(self) -> float:
        """Drop what is frozen, and scale the rest down to `max_grad_norm`; returns the norm before."""
        zero_frozen(self.model)
        return clip(self.model, self.config.max_grad_norm)

    def _check_gap(self, gap: float, step: int) -> None:
        bound = self.config.max_gap
        if bound is not None and gap > bound:
            self.discard()
            raise TandemError(
                f"the sampler's log-probs of step {step} are {gap:.3g} from the trainer's on average, above "
                f"policy.trainer.max_gap, {bound:g}; the weights were left as they were"
            )

    def _micro_batch(self, batch: MicroBatch, whole: float) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss and the sums, on the device still: the next micro-batch need not wait for them."""
        ref = None
        if self._reference is not None:
            with torch.no_grad(), self._base():
                ref = self._logprobs(self._reference, batch)
        new = self._logprobs(self.model, batch)
        loss, sums = objective(
            new,
            batch.sampled,
            batch.mask,
            batch.advantages,
            batch.multiplicities,
            whole,
            self.config.objective,
            ref,
        )
        loss.backward()
        return loss.detach(), sums

    def _base(self) -> AbstractContextManager[None]:
        return without_adapters(self.model) if self.config.lora else nullcontext()

    def _logprobs(self, model: PreTrainedModel, batch: MicroBatch) -> Tensor:
        with torch.autocast(model.device.type, torch.bfloat16, enabled=self._autocast):
            return trained_logprobs(model, batch.tokens, batch.mask, self._temperature)


def _read(run: Sequence[tuple[Tensor, dict[str, Tensor]]]) -> tuple[float, dict[str, float]]:
    """The loss and the sums of all micro-batches, added in their order; waits for the device once."""
    if not run:
        return 0.0, {}
    keys = list(run[0][1])
    table = torch.stack([torch.stack([loss, *sums.values()]) for loss, sums in run]).double().tolist()
    rows = [dict(zip(keys, values, strict=True)) for _, *values in table]
    return sum(row[0] for row in table), reduce(merge, rows)


def _statistics(sums: dict[str, float]) -> dict[str, float]:
    tokens = sums["tokens"]
    return {
        "clip_fraction": sums["clipped_tokens"] / tokens,
        "ratio_mean": sums["ratio_sum"] / tokens,
        "gap_mean": sums["gap_sum"] / tokens,
        "gap_max": sums["gap_max"],
        "kl": sums["kl_sum"] / tokens,
    }
