"""The properties of m-grpo.md, section 3."""

import subprocess
import sys
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from executor_server import alignment
from executor_server.alignment import align, effective_sample_size
from shared.errors import InvalidInput

SIZES = st.lists(st.integers(0, 12), min_size=1, max_size=8)


def rollouts_of(sizes):
    return {f"r{k}": [f"r{k}-t{i:02}" for i in range(d)] for k, d in enumerate(sizes)}


def aligned(rollouts, d_max=4, mode="copies", run_seed=7, group_id="g"):
    return align(rollouts, d_max=d_max, mode=mode, run_seed=run_seed, group_id=group_id)


def counts_of(rollouts, result):
    return {rollout: [result.multiplicity[i] for i in ids] for rollout, ids in rollouts.items()}


@given(SIZES, st.integers(1, 10), st.integers(0, 2**32))
def test_each_rollout_with_a_call_has_exactly_d_max_rows_of_its_own(sizes, d_max, seed):
    rollouts = rollouts_of(sizes)
    for counts in counts_of(rollouts, aligned(rollouts, d_max, run_seed=seed)).values():
        d = len(counts)
        assert sum(counts) == (d_max if d else 0)
        assert all(count >= 1 for count in counts) if d <= d_max else set(counts) == {0.0, 1.0}


@given(SIZES, st.integers(1, 10))
def test_the_report_counts_what_was_done(sizes, d_max):
    rollouts = rollouts_of(sizes)
    result = aligned(rollouts, d_max)
    total = sum(result.multiplicity.values())
    assert total == d_max * sum(d > 0 for d in sizes)
    assert result.masked == d_max * len(sizes) - total
    assert result.distinct == sum(sizes) - result.dropped
    assert total == result.distinct + result.copied


@given(SIZES, st.integers(1, 10), st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_nothing(sizes, d_max, random):
    rollouts = rollouts_of(sizes)
    shuffled = [(rollout, random.sample(ids, len(ids))) for rollout, ids in rollouts.items()]
    random.shuffle(shuffled)
    assert aligned(rollouts, d_max) == aligned(dict(shuffled), d_max)


@given(SIZES)
def test_a_rollout_is_drawn_alike_whatever_its_neighbours(sizes):
    rollouts = rollouts_of(sizes)
    result = aligned(rollouts)
    for rollout, ids in rollouts.items():
        alone = aligned({rollout: ids})
        assert alone.multiplicity == {i: result.multiplicity[i] for i in ids}


def test_run_seed_group_and_rollout_each_change_the_draw():
    ids = [f"t{i}" for i in range(3)]
    draws = {
        tuple(aligned({rollout: ids}, 64, run_seed=seed, group_id=group).multiplicity.values())
        for seed, group, rollout in product((1, 2), "gh", "ab")
    }
    assert len(draws) == 8


def test_another_process_draws_alike():
    code = (
        "from executor_server.alignment import align; print(list(align({'r': list('abc')}, d_max=32, mode='copies',"
        " run_seed=5, group_id='g').multiplicity.values()))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert run.stdout.strip() == str(list(aligned({"r": list("abc")}, 32, run_seed=5).multiplicity.values()))


class Enumerated:
    """A generator that yields given values, each the middle of one of n equal parts of [0, 1)."""

    def __init__(self, parts, n):
        self.values = [(part + 0.5) / n for part in parts]

    def random(self):
        return self.values.pop(0)


def over_all_draws(monkeypatch, d, d_max, draws):
    """The multiplicities under each of the equally likely outcomes of `draws` draws among d parts."""
    rollouts = {"r": [f"t{i}" for i in range(d)]}
    for parts in product(range(d), repeat=draws):
        monkeypatch.setattr(alignment, "_generator", lambda *_, parts=parts: Enumerated(parts, d))
        yield parts, list(aligned(rollouts, d_max).multiplicity.values())


@pytest.mark.parametrize(("d", "d_max"), [(1, 4), (2, 4), (3, 5), (3, 3), (4, 6)])
def test_copies_are_uniform_with_replacement_and_expected_is_their_mean(monkeypatch, d, d_max):
    outcomes = [counts for _, counts in over_all_draws(monkeypatch, d, d_max, d_max - d)]
    assert len(outcomes) == d ** (d_max - d)
    means = [sum(column) / len(outcomes) for column in zip(*outcomes, strict=True)]
    expected = aligned({"r": [f"t{i}" for i in range(d)]}, d_max, "expected").multiplicity
    assert means == pytest.approx(list(expected.values()))
    assert means == pytest.approx([d_max / d] * d)
    if d_max - d > 1 and d > 1:
        assert 1 + d_max - d in {max(counts) for counts in outcomes}, "all copies may fall on one: with replacement"


@pytest.mark.parametrize(("d", "d_max"), [(2, 1), (3, 2), (4, 2), (5, 3)])
def test_dropping_keeps_each_subset_equally_often(monkeypatch, d, d_max):
    kept = [
        frozenset(i for i, count in enumerate(counts) if count)
        for parts, counts in over_all_draws(monkeypatch, d, d_max, d)
        if len(set(parts)) == d  # ties between continuous draws have no mass
    ]
    times = {subset: kept.count(subset) for subset in kept}
    assert all(len(subset) == d_max for subset in times)
    assert len(set(times.values())) == 1


@given(SIZES, st.integers(1, 10))
def test_expected_shares_d_max_equally_and_drops_nothing(sizes, d_max):
    rollouts = rollouts_of(sizes)
    result = aligned(rollouts, d_max, "expected")
    for counts in counts_of(rollouts, result).values():
        assert counts == pytest.approx([d_max / len(counts) for _ in counts])
    assert (result.copied, result.dropped, result.distinct) == (0, 0, sum(sizes))
    assert result.masked == d_max * sizes.count(0)


def test_none_counts_each_once_and_has_no_slots_to_mask():
    result = aligned(rollouts_of([0, 2, 9]), mode="none")
    assert set(result.multiplicity.values()) == {1.0}
    assert (result.copied, result.dropped, result.masked, result.distinct) == (0, 0, 0, 11)


def test_bad_input_is_refused():
    with pytest.raises(InvalidInput, match="d_max"):
        aligned({"r": ["t"]}, 0)
    with pytest.raises(InvalidInput, match="stands twice"):
        aligned({"r": ["t", "t"]})
    with pytest.raises(InvalidInput, match="stands twice"):
        aligned({"r": ["t"], "s": ["t"]})


def test_the_effective_sample_size_is_the_number_of_equal_rows():
    assert effective_sample_size([2.0, 2.0, 2.0]) == pytest.approx(3)
    assert effective_sample_size([4, 1, 1, 1, 1]) == pytest.approx(64 / 20)
    assert effective_sample_size([0, 0]) == 0
