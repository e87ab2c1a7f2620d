"""The pace, against look-up curves that are made up: it is steered by gates and steps, never by a clock."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy.warmup.pace import Pace, Pacer

PACE = Pace(exercises=0.8, lr=1e-2, rise_steps=10, least_steps=60, decay_steps=40, most_steps=200)


def run(curve, pace=PACE, exercised=True) -> tuple[Pacer, list[str]]:
    """Follow `curve`, a function of the step, to the end; the pacer and the phase after each step."""
    pacer, phases = Pacer(pace, exercised), []
    while not (pacer.finished or pacer.failed):
        pacer.advance(curve(pacer.step))
        phases.append(pacer.phase)
    return pacer, phases


def test_a_curve_that_rises_goes_through_every_phase_in_order():
    pacer, phases = run(lambda step: min(1.0, step / 80))
    assert list(dict.fromkeys(phases)) == ["skewed", "uniform", "decay"]
    assert pacer.finished
    assert not pacer.failed
    assert pacer.step == pacer.decay_from + PACE.decay_steps


def test_the_gate_is_not_passed_before_the_least_number_of_steps():
    pacer, _ = run(lambda step: 1.0)
    assert pacer.decay_from == PACE.least_steps


def test_a_curve_under_the_gate_fails_and_says_so():
    pacer, _ = run(lambda step: 0.87)
    assert pacer.failed
    assert not pacer.finished
    assert pacer.step == PACE.most_steps
    assert pacer.phase == "uniform"


def test_a_curve_that_never_leaves_the_first_phase_fails():
    pacer, phases = run(lambda step: 0.6)
    assert pacer.failed
    assert set(phases) == {"skewed"}


def test_one_good_step_passes_nothing():
    pacer, _ = run(lambda step: 1.0 if step == 100 else 0.5)
    assert pacer.failed


def test_the_learning_rate_rises_holds_and_falls():
    pacer, rates = Pacer(PACE, exercised=True), []
    while not pacer.finished:
        rates.append(pacer.lr)
        pacer.advance(1.0)
    assert rates[0] == pytest.approx(1e-3)
    assert rates[9 : PACE.least_steps] == pytest.approx([1e-2] * (PACE.least_steps - 9))
    falling = rates[PACE.least_steps :]
    assert all(a >= b for a, b in pairwise(falling))
    assert falling[-1] == pytest.approx(1e-2 * PACE.least_lr)


def test_exercises_are_halved_in_the_decay():
    pacer = Pacer(PACE, exercised=True)
    before = pacer.exercises
    for _ in range(PACE.least_steps):
        pacer.advance(1.0)
    assert (before, pacer.exercises) == (0.8, 0.4)


def test_without_exercises_only_the_steps_count():
    pacer, phases = run(lambda step: None, exercised=False)
    assert pacer.exercises == 0
    assert pacer.decay_from == PACE.least_steps
    assert set(phases) == {"skewed", "decay"}


def test_a_step_without_an_exercise_leaves_the_look_up_as_it_is():
    pacer = Pacer(PACE, exercised=True)
    pacer.advance(0.5)
    before = pacer.lookup
    pacer.advance(None)
    assert pacer.lookup == before


@given(st.lists(st.floats(0, 1), min_size=1, max_size=300))
def test_the_fraction_is_a_fraction_and_one_only_at_the_end(curve):
    pacer = Pacer(PACE, exercised=True)
    for value in curve:
        if pacer.finished or pacer.failed:
            break
        pacer.advance(value)
        assert 0 < pacer.fraction <= 1
        assert (pacer.fraction == 1) == pacer.finished


def test_unknown_keys_and_impossible_values_are_refused():
    for wrong in ({"speed": 1}, {"lr": 0}, {"exercises": 1.5}, {"batch": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Pace(**wrong)
