"""The pace of each warm-up of atlas, and the figures that each must reach."""

from typing import Literal

from shared.policy.warmup.pace import Pace

PACE: dict[Literal["planner", "executor", "single", "unified"], Pace] = {
    "planner": Pace(lr=4e-3, exercises=0.4, least_steps=180, decay_steps=250, most_steps=900),
    "executor": Pace(lr=4e-3, embedding_lr=0.1, exercises=0.9, least_steps=180, decay_steps=250, most_steps=900),
    "single": Pace(lr=4e-3, embedding_lr=0.1, exercises=0.9, least_steps=180, decay_steps=250, most_steps=900),
    "unified": Pace(lr=4e-3, embedding_lr=0.1, exercises=0.8, least_steps=180, decay_steps=350, most_steps=900),
}
PACE_OF_ANY = Pace(batch=8, lr=1e-4, rise_steps=5, least_steps=5, decay_steps=45)
"""Of a model that is no model of the demo's."""
THRESHOLDS: dict[Literal["planner", "executor", "single"], dict[str, float]] = {
    "planner": {"lookup": 0.95, "format": 0.95},
    "executor": {"lookup": 0.95, "format": 0.80},
    "single": {"lookup": 0.95, "format": 0.60},
}
"""A unified model must reach those of both roles. A single model makes an executor's choices hop after hop."""
