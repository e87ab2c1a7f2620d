"""One optimiser step on one batch, in two phases: accumulate the gradient, then apply or discard it.

Between the two the server asks whether the stream is still its own, so that a lost lease costs no weights.
"""

import math
import time
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel

from shared.errors import InvalidInput, TandemError
from shared.mgrpo.objective import denominator, merge, objective
from shared.policy.batches import Example, MicroBatch, collate, split
from shared.policy.config import TrainerConfig
from shared.policy.logprobs import trained_logprobs
from shared.policy.optimizer import apply_step, build_optimizer, clip, zero_frozen
from shared.policy.schedule import learning_rate


class Trainer:
    """Trains `model` in place.

    `total_steps`: over which the learning rate falls. `reference`: the frozen model that the KL is towards, where the
    objective has one. `autocast`: run the matrix products of a float32 model in bfloat16.
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
        TandemError: the loss is not finite.
        """
        self.discard()
        started = time.perf_counter()
        counts = [sum(example.mask) for example in examples]
        whole = denominator([e.multiplicity for e in examples], counts, self.config.objective)
        live = [example for example in examples if not example.dead]
        if not live:
            return None
        loss, sums = 0.0, {}
        parts = split(live, self.config.micro_batch_tokens)
        for part in parts:
            part_loss, part_sums = self._micro_batch(collate(part, self.model.device), whole)
            loss += part_loss
            sums = merge(sums, part_sums)
        if not math.isfinite(loss):
            self.discard()
            raise TandemError(f"the loss of step {step} is {loss}; the weights were left as they were")
        self._accumulated = step
        return _statistics(sums) | {
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
        zero_frozen(self.model)
        norm = clip(self.model, self.config.max_grad_norm)
        if not math.isfinite(norm):
            self.discard()
            raise TandemError(f"the gradient norm of step {step} is {norm}; the weights were left as they were")
        lr = learning_rate(step, self._total_steps, self.config)
        apply_step(self.optimizer, lr)
        self._accumulated = None
        return {"gradient_norm": norm, "learning_rate": lr}

    def schedule(self, total_steps: int) -> None:
        """The run has that many steps: a server may start before its run is declared."""
        self._total_steps = total_steps

    def discard(self) -> None:
        """Drop the gradient; the weights stay as they are."""
        self._accumulated = None
        self.optimizer.zero_grad(set_to_none=True)

    def _micro_batch(self, batch: MicroBatch, whole: float) -> tuple[float, dict[str, float]]:
        new = self._logprobs(self.model, batch)
        ref = None
        if self._reference is not None:
            with torch.no_grad():
                ref = self._logprobs(self._reference, batch)
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
        return loss.item(), sums

    def _logprobs(self, model: PreTrainedModel, batch: MicroBatch) -> Tensor:
        with torch.autocast(model.device.type, torch.bfloat16, enabled=self._autocast):
            return trained_logprobs(model, batch.tokens, batch.mask, self._temperature)


def _statistics(sums: dict[str, float]) -> dict[str, float]:
    tokens = sums["tokens"]
    return {
        "clip_fraction": sums["clipped_tokens"] / tokens,
        "ratio_mean": sums["ratio_sum"] / tokens,
        "gap_mean": sums["gap_sum"] / tokens,
        "gap_max": sums["gap_max"],
        "kl": sums["kl_sum"] / tokens,
    }
