"""What one shard takes of its device's memory: its part of what lasts, and all of what a micro-batch takes."""

from dataclasses import replace

from transformers import PreTrainedModel

from shared.policy.memory import MemoryPlan


def plan_of_shard(whole: MemoryPlan, gathered: int, shards: int) -> MemoryPlan:
    """From the plan of one process; `gathered` are bytes of weights that are whole at a time (`gathered_bytes`)."""
    return replace(
        whole,
        weights=whole.weights // shards + gathered,
        gradients=whole.gradients // shards + gathered,
        optimizer=whole.optimizer // shards,
        reference=whole.reference // shards,
    )


def gathered_bytes(model: PreTrainedModel) -> int:
    """Of a model not sharded yet: two layers (the next is fetched while one runs), and what belongs to none."""
    names = set(model._no_split_modules or [])
    layers = [module for module in model.modules() if type(module).__name__ in names]
    sizes = [sum(p.numel() * p.element_size() for p in layer.parameters()) for layer in layers]
    total = sum(p.numel() * p.element_size() for p in model.parameters())
    return total - sum(sizes) + 2 * max(sizes, default=0)
