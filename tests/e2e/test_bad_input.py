"""A user's mistakes before anything starts: one clear line that names the thing, exit code 2, no traceback."""

import pytest


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("run.steps=none", "run.steps"),
        ("demo.environment=atlantis", "atlantis"),
        ("planner.limits.max_turnz=3", "max_turnz"),
        ("executor.policy.trainer.lr=-1", "lr"),
        ("warmup.models.planner=/nowhere", "/nowhere"),
        ("planner.policy.trainer.objective.ratio=sequence planner.policy.trainer.objective.kl_coef=0.1", "kl"),
    ],
)
def test_it_is_named(start, override: str, named: str):
    demo = start(*override.split())
    assert demo.wait() == 2, demo.output
    assert named in demo.output
    assert "Traceback" not in demo.output
