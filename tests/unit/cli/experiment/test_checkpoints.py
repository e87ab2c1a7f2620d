"""Which checkpoints an evaluation of an arm is on."""

import pytest

from shared.cli.demo.evaluations import of_checkpoints
from shared.cli.demo.watch import validation_request
from shared.cli.experiment.definition import load_definition


@pytest.mark.parametrize(
    ("arm", "planner", "executor"),
    [
        ("cotrain", "step-20", "step-20"),
        ("frozen-executor", "step-20", "initial"),
        ("single", "step-20", "step-20"),
        ("unified", "step-20", "step-20"),
    ],
)
def test_a_role_that_does_not_train_stays_and_one_model_is_one_checkpoint(arm: str, planner: str, executor: str):
    settings = load_definition().job_settings(arm, "easy", 11, smoke=False, overrides=[])
    request = validation_request(settings, "step-20")
    assert (request.planner_checkpoint, request.executor_checkpoint) == (planner, executor)
    assert set(of_checkpoints(settings, {}).values()) == {"initial"}
