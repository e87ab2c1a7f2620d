"""The pace of a warm-up: counted in steps and steered by the look-up, so it is the same on a fast and a slow machine.

    skewed    exercises have few frequent keys, until the smoothed look-up is `uniform_from`
    uniform   all keys alike, until it is `gate`, and not before `least_steps`
    decay     the learning rate falls over `decay_steps`, exercises are halved; then it ends

Without exercises there is nothing to wait for: decay begins at `least_steps`.
"""

from dataclasses import dataclass, field
from typing import Literal

from pydantic import Field

from shared.config import Config

Phase = Literal["skewed", "uniform", "decay"]
SMOOTHING = 0.9
"""Weight of the past in the smoothed look-up."""


class Pace(Config):
    """How many rows a step, at which learning rate, and when a phase ends."""

    batch: int = Field(32, ge=1)
    lr: float = Field(3e-3, gt=0)
    embedding_lr: float = Field(1.0, gt=0, le=1)
    """Share of the learning rate that the input embeddings have."""
    rise_steps: int = Field(30, ge=1)
    """Steps over which the learning rate rises at the start."""
    least_lr: float = Field(0.05, ge=0, le=1)
    """Share of the learning rate that is left at the end."""
    exercises: float = Field(0.0, ge=0, le=1)
    """Share of exercises among the rows of a step; half of it in the decay."""
    uniform_from: float = Field(0.7, ge=0, le=1)
    gate: float = Field(0.88, ge=0, le=1)
    least_steps: int = Field(200, ge=1)
    decay_steps: int = Field(300, ge=1)
    most_steps: int = Field(1500, ge=1)
    """Without the gate by then, the start has failed."""
    starts: int = Field(1, ge=1)
    """How many starts from scratch are tried, each drawn anew: some end in a saddle, with two keys confused."""


@dataclass(slots=True)
class Pacer:
    """Where a warm-up is. `advance` after each step; `lookup` is smoothed, 0 at the start."""

    pace: Pace
    exercised: bool
    step: int = 0
    lookup: float = 0.0
    phase: Phase = "skewed"
    decay_from: int | None = field(default=None)

    @property
    def lr(self) -> float:
        """The learning rate of the next step."""
        rise = min(1.0, (self.step + 1) / self.pace.rise_steps)
        if self.decay_from is None:
            return self.pace.lr * rise
        left = 1 - (self.step - self.decay_from) / self.pace.decay_steps
        return self.pace.lr * rise * max(self.pace.least_lr, left)

    @property
    def exercises(self) -> float:
        """The share of exercises in the next step."""
        if not self.exercised:
            return 0.0
        return self.pace.exercises / (2 if self.phase == "decay" else 1)

    @property
    def finished(self) -> bool:
        """The decay is over."""
        return self.decay_from is not None and self.step >= self.decay_from + self.pace.decay_steps

    @property
    def failed(self) -> bool:
        """The gate was not reached in time."""
        return self.decay_from is None and self.step >= self.pace.most_steps

    @property
    def fraction(self) -> float:
        """How much is done, for a progress bar: as if the gate came at `least_steps`, or next."""
        start = max(self.step, self.pace.least_steps) if self.decay_from is None else self.decay_from
        return min(1.0, self.step / (start + self.pace.decay_steps))

    def advance(self, lookup: float | None) -> None:
        """One step was taken; `lookup` is what it measured on its exercises, None where it had none."""
        self.step += 1
        if lookup is not None:
            self.lookup = SMOOTHING * self.lookup + (1 - SMOOTHING) * lookup
        if self.phase == "skewed" and self.exercised and self.lookup >= self.pace.uniform_from:
            self.phase = "uniform"
        ready = (self.phase == "uniform" and self.lookup >= self.pace.gate) or not self.exercised
        if self.decay_from is None and ready and self.step >= self.pace.least_steps:
            self.phase, self.decay_from = "decay", self.step
