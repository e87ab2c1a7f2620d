"""What the trainer says of the sampler's log-probs: the probe's reference, and the bound of a step."""

import pytest

from shared.errors import TandemError
from shared.policy.batches import Example
from shared.policy.config import TrainerConfig
from shared.policy.training import Trainer

from ..sampler_contract import full_logprobs
from ..tiny import build_model

PROMPT, TURN = [5, 6, 7], [9, 11, 4, 1]


def trainer(temperature=1.0, **changes):
    config = TrainerConfig.model_validate({"warmup_steps": 0, "lr": 1e-2} | changes)
    return Trainer(build_model(), config, total_steps=5, temperature=temperature)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_reference_is_what_an_update_computes(temperature):
    expected = full_logprobs(build_model(), PROMPT, TURN, temperature)
    assert trainer(temperature).logprobs(PROMPT + TURN, 3) == pytest.approx(expected, abs=1e-5)


def row(off):
    """A turn whose recorded log-probs are `off` from the model's."""
    logprobs = [value + off for value in full_logprobs(build_model(), PROMPT, TURN)]
    return Example("t", PROMPT + TURN, [0] * 3 + [1] * 4, [0.0] * 3 + logprobs, advantage=1.0, multiplicity=2.0)


def test_a_step_beyond_the_bound_fails_and_leaves_the_weights():
    bounded = trainer(max_gap=0.05)
    with pytest.raises(
        TandemError, match=r"step 1 are 0\.1 from the trainer's on average, above policy\.trainer\.max_gap"
    ):
        bounded.accumulate([row(0.1)], 1)
    with pytest.raises(TandemError, match="no accumulated gradient"):
        bounded.apply(1)
    assert bounded.accumulate([row(0.01)], 1)["gap_mean"] == pytest.approx(0.01, abs=1e-4)
    assert bounded.apply(1)["gradient_norm"] > 0


def test_without_a_bound_the_gap_is_only_reported():
    assert trainer().accumulate([row(0.1)], 1)["gap_mean"] == pytest.approx(0.1, abs=1e-4)
