"""The pace of each warm-up of atlas, and the figures that each must reach."""

from typing import Literal

from shared.policy.warmup.pace import Pace

_OWN = Pace(lr=4e-3, embedding_lr=0.1, exercises=0.9, least_steps=180, decay_steps=250, most_steps=450, starts=3)
PACE: dict[Literal["planner", "executor", "single", "unified"], Pace] = {
    "planner": _OWN.model_copy(update={"embedding_lr": 1.0, "exercises": 0.4}),
    "executor": _OWN,
    "single": _OWN,
    "unified": _OWN.model_copy(update={"decay_steps": 450}),
}
"""Most starts find the look-up in 300 steps. A unified model has two roles to learn in its decay."""
PACE_OF_ANY = Pace(batch=8, lr=1e-4, rise_steps=5, least_steps=5, decay_steps=45)
"""Of a model that is no model of the demo's."""
THRESHOLDS: dict[Literal["planner", "executor", "single"], dict[str, float]] = {
    "planner": {"lookup": 0.95, "format": 0.95},
    "executor": {"lookup": 0.95, "format": 0.80},
    "single": {"lookup": 0.95, "format": 0.60},
}
"""A unified model must reach those of both roles. A single model makes an executor's choices hop after hop."""
