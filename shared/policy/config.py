"""What a role's policy is configured with: its model, how it samples, trains, saves and stores."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from shared.config import Config
from shared.mgrpo.config import ObjectiveConfig
from shared.policy.vllm.config import VllmConfig

Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(ge=0, lt=1)]
MIB = 2**20
FILTERS = {"top_p", "top_k", "min_p", "typical_p", "repetition_penalty", "frequency_penalty", "presence_penalty"}
"""What samplers elsewhere offer, and none does here: it changes what is sampled from, and the trainer knows not how."""


class LoraConfig(Config):
    """Low-rank adapters instead of the whole model: weights + alpha / rank * B A, and only A and B are trained."""

    rank: Count = 16
    alpha: Annotated[float, Field(gt=0)] = 32.0
    target_modules: Literal["all-linear"] | Annotated[tuple[str, ...], Field(min_length=1)] = "all-linear"
    """Names of layers, as `["q_proj", "v_proj"]`; `all-linear`: all but the embeddings and the head."""


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
    max_gap: Annotated[float, Field(gt=0)] | None = None
    """What the sampler's log-probs may differ from the trainer's in a step, on average over its tokens, in nats; a step
    beyond it fails, and the weights stay. Stale rows differ by what was trained since. It bounds a start from
    a checkpoint, too, for the rows that its weights sampled."""
    micro_batch_tokens: Count = 2048
    """Padded tokens that go through the model at once: it bounds memory, and never changes the gradient."""
    gradient_checkpointing: bool = False
    """Keep each layer's input only, and compute the layer anew in the backward pass: less memory, a third slower."""
    lora: LoraConfig | None = None
    """Train adapters on a frozen base; unset: train all of the model."""
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


class PoolConfig(Config):
    """Where the sampler and the trainer run: a process each on this machine, or many, on the role's Ray cluster."""

    kind: Literal["local", "ray"] = "local"
    address: Annotated[str, Field(pattern=r"^(auto|[^:/]+:[0-9]{1,5})$")] | None = None
    """Of the role's cluster, host:port, or `auto` for the one on this machine; unset: one of the server's own."""
    samplers: Count | None = None
    """Sampler replicas, 1 where unset. Those that the cluster has no room for start when a machine joins it."""
    trainer_shards: Count | None = None
    """Processes that the trained weights and the optimiser's state are spread over, 1 where unset."""
    collective_timeout_s: Annotated[float, Field(gt=0)] | None = None
    """The longest that a shard may be behind the others within a call, 300 s where unset; then all of them end."""

    @model_validator(mode="after")
    def _of_its_kind(self) -> "PoolConfig":
        for name in ("address", "samplers", "trainer_shards", "collective_timeout_s"):
            if self.kind == "local" and getattr(self, name) is not None:
                raise ValueError(f"{name} has no use with kind 'local', which is one sampler and one trainer")
        return self


class PolicyConfig(Config):
    """One role's policy, on one machine.

    `dtype` bfloat16: the sampler's weights, the trainer's matrix products, and the frozen base under LoRA; the trained
    weights, their gradients and AdamW's moments stay float32.
    """

    model: Path
    """A Hugging Face folder: safetensors weights, config and tokenizer."""
    device: Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:[0-9]+)?)$")] = "auto"
    dtype: Literal["float32", "bfloat16"] = "float32"
    threads: Count | None = None
    """Torch threads a process; unset: the cores divided by this policy's torch processes."""
    temperature: Annotated[float, Field(ge=0.01, le=10)] = 1.0
    """Of the rollouts that are trained on: the trainer divides its logits by it, too."""
    max_batch: Count = 64
    """Requests that the sampler runs at once; the others wait until one of them ends."""
    cache_mib: Count = 2048
    """Keys and values that the sampler holds, for each set of weights, in MiB: first of the requests that run, of which
    it starts no more than fit, then of finished turns, for the next turns of their conversations."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    """Of the sampler's random draws, at the first start in a folder; later ones take a fresh one, as all do where it is
    unset. Batching depends on timing all the same."""
    sampler: Literal["transformers", "vllm"] = "transformers"
    """What samples: a process of ours, or a vLLM server (docs/vllm.md)."""
    vllm: VllmConfig | None = None
    trainer: TrainerConfig = TrainerConfig()
    checkpoints: CheckpointConfig = CheckpointConfig()
    pool: PoolConfig = PoolConfig()
    store: StoreConfig = StoreConfig()

    @model_validator(mode="before")
    @classmethod
    def _whole_distribution(cls, settings: Any) -> Any:
        named = sorted(FILTERS & settings.keys()) if isinstance(settings, dict) else []
        if named:
            raise ValueError(
                f"{', '.join(named)} is not offered: the trainer's ratio compares log-probs of the whole distribution, "
                "and would be biased by what such a filter changes; set temperature, or evaluate at temperature 0"
            )
        return settings

    @model_validator(mode="after")
    def _one_sampler(self) -> "PolicyConfig":
        if self.sampler == "transformers" and self.vllm:
            raise ValueError('vllm has no use with sampler = "transformers": set sampler = "vllm"')
        if self.sampler == "vllm" and not self.vllm:
            raise ValueError('sampler = "vllm" needs vllm.python, or vllm.url')
        if self.vllm and self.vllm.url and (named := {"seed", "cache_mib"} & self.model_fields_set):
            raise ValueError(f"{', '.join(sorted(named))}: of a server at vllm.url these are its own arguments")
        return self

    @model_validator(mode="after")
    def _fits_the_pool(self) -> "PolicyConfig":
        if self.pool.kind == "local":
            return self
        if self.device not in ("cpu", "cuda"):
            raise ValueError("device: with pool.kind 'ray' say cpu, or cuda for a GPU each; Ray chooses which")
        if self.trainer.lora:
            raise ValueError("trainer.lora is not offered with pool.kind 'ray'")
        if self.vllm and self.pool.samplers:
            raise ValueError("pool.samplers has no use with a vLLM server, which is told its own size")
        return self
