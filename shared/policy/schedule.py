"""The learning rate as a pure function of the step, so that a resumed run has the same one."""

from shared.policy.config import TrainerConfig


def learning_rate(step: int, total_steps: int, config: TrainerConfig) -> float:
    """Steps count from 1: a linear rise over `warmup_steps`, times a linear fall to `final_lr_fraction` at the end."""
    warmup = min(1.0, step / max(1, config.warmup_steps))
    progress = min(1.0, (step - 1) / max(1, total_steps - 1))
    return config.lr * warmup * (1 - (1 - config.final_lr_fraction) * progress)
