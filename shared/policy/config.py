"""What a role's policy is configured with: its model, how it samples, trains, saves and stores."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from shared.config import Config
from shared.mgrpo.config import ObjectiveConfig

Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(ge=0, lt=1)]
MIB = 2**20


class TrainerConfig(Config):
    """AdamW on the M-GRPO objective; the learning rate rises over `warmup_steps`, then falls linearly to the end."""

    lr: Annotated[float, Field(gt=0)] = 1e-6
    warmup_steps: Annotated[int, Field(ge=0)] = 5
    final_lr_fraction: Annotated[float, Field(ge=0, le=1)] = 0.1
    """What is left of `lr` at the run's last step."""
    betas: tuple[Rate, Rate] = (0.9, 0.95)
    eps: Annotated[float, Field(gt=0)] = 1e-8
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    """Of matrices only: biases, norms and an embedding with frozen rows do not decay."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    micro_batch_tokens: Count = 2048
    """Padded tokens that go through the model at once: it bounds memory, and never changes the gradient."""
    deterministic: bool = False
    """Only algorithms that give the same bits again, on the same machine, threads and versions: slower on a GPU."""
    objective: ObjectiveConfig = ObjectiveConfig()


class CheckpointConfig(Config):
    """A checkpoint after every so many steps; the last few stay, and the one that was marked best."""

    every: Count = 10
    keep_last: Count = 2


class StoreConfig(Config):
    """The disk bound of the trajectory store, in bytes: what a checkpoint contains is purged first."""

    max_bytes: Annotated[int, Field(ge=MIB)] = 4096 * MIB


class PolicyConfig(Config):
    """One role's policy, on one machine.

    `dtype` bfloat16: the sampler's weights and the trainer's matrix products; the trained weights, their gradients
    and AdamW's moments stay float32.
    """

    model: Path
    """A Hugging Face folder: safetensors weights, config and tokenizer."""
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:[0-9]+)?)$")] = "auto"
    dtype: Literal["float32", "bfloat16"] = "float32"
    threads: Count | None = None
    """Torch threads a process; unset: the cores divided by this policy's torch processes."""
    temperature: Annotated[float, Field(gt=0, le=10)] = 1.0
    """Of the rollouts that are trained on: the trainer divides its logits by it, too."""
    max_batch: Count = 64
    """Requests that the sampler runs at once; the others wait for the next batch."""
    seed: int | None = None
    """Of the sampler's random draws; unset: a fresh one at every start. Batching depends on timing all the same."""
    trainer: TrainerConfig = TrainerConfig()
    checkpoints: CheckpointConfig = CheckpointConfig()
    store: StoreConfig = StoreConfig()
