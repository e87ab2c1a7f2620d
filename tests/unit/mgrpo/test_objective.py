import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.config import parse
from shared.errors import InvalidInput, UserError
from shared.mgrpo.config import ObjectiveConfig
from shared.mgrpo.objective import denominator, merge, objective

from .vectors import load

VECTORS = load("loss")
KEYS = ("old", "ratio", "loss_norm", "eps_low", "eps_high", "kl_coef", "tis_cap")
VARIANTS = [
    {},
    {"loss_norm": "token", "kl_coef": 0.05},
    {"loss_norm": "constant", "constant_length": 16},
    {"old": "recomputed", "tis_cap": 1.1, "kl_coef": 0.02},
    {"ratio": "sequence", "preset": "paper"},
]


def config_of(case):
    constant = case["constant_length"] if case["loss_norm"] == "constant" else None
    return ObjectiveConfig(**{key: case[key] for key in KEYS}, constant_length=constant)


def whole_denominator(rows, config):
    return denominator([r["multiplicity"] for r in rows], [sum(r["mask"]) for r in rows], config)


def forward(rows, config, total, old=None):
    """The loss of `rows` in one micro-batch, the gradient of each row's log-probs, the statistics."""
    length = max(len(r["mask"]) for r in rows)

    def padded(key):
        values = [r[key] + [0] * (length - len(r[key])) for r in rows]
        return torch.tensor(values, dtype=torch.float64)

    def column(key):
        return torch.tensor([r[key] for r in rows], dtype=torch.float64)

    new = padded("new").requires_grad_()
    loss, sums = objective(
        new,
        padded("sampler"),
        padded("mask"),
        column("advantage"),
        column("multiplicity"),
        total,
        config,
        ref=padded("ref") if config.kl_coef else None,
        old=padded(old) if old else None,
    )
    loss.backward()
    gradients = [g[: len(r["mask"])].tolist() for g, r in zip(new.grad, rows, strict=True)]
    return loss.item(), gradients, {key: value.item() for key, value in sums.items()}


@pytest.mark.parametrize("case", VECTORS, ids=[str(i) for i in range(len(VECTORS))])
def test_vectors(case):
    config, rows = config_of(case), case["rows"]
    live = [row for row in rows if not row["dead"]]
    old = "old" if config.old == "recomputed" else None
    loss, gradients, _ = forward(live, config, whole_denominator(rows, config), old)
    assert loss == pytest.approx(case["loss"], abs=1e-6)
    right = [g for g, row in zip(case["grad_new"], rows, strict=True) if not row["dead"]]
    for mine, theirs in zip(gradients, right, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-6)
    for g, row in zip(case["grad_new"], rows, strict=True):
        assert not (row["dead"] and any(g)), "a dead row has no gradient to miss"


LOGPROB = st.floats(-4, -0.01)


@st.composite
def a_row(draw, whole=True):
    length = draw(st.integers(1, 6))
    mask = draw(st.lists(st.integers(0, 1), min_size=length, max_size=length).filter(any))
    numbers = st.lists(LOGPROB, min_size=length, max_size=length)
    return {
        "mask": mask,
        **{key: draw(numbers) for key in ("new", "sampler", "ref")},
        "advantage": draw(st.floats(-2, 2)),
        "multiplicity": draw(st.integers(1, 5) if whole else st.floats(0.25, 8)),
        "dead": draw(st.booleans()),
    }


def batches(whole=True):
    rows = st.lists(a_row(whole=whole), min_size=1, max_size=5)
    return rows.filter(lambda rows: not all(r["dead"] for r in rows))


def plain_loss(rows, new, c):
    """Ten plain lines, a row at a time, each row standing there as often as it counts (token ratio)."""
    copies = [(r, n) for r, n in zip(rows, new, strict=True) for _ in range(r["multiplicity"])]
    total = 0.0
    for r, n in copies:
        terms = []
        for i in [i for i, m in enumerate(r["mask"]) if m and not r["dead"]]:
            behaviour = r["sampler"][i] if c.old == "sampled" else n[i].detach()
            rho, tis = (
                torch.exp(n[i] - behaviour),
                1.0 if c.tis_cap is None else min(math.exp(n[i].item() - r["sampler"][i]), c.tis_cap),
            )
            clipped = min(max(rho, 1 - c.eps_low), 1 + c.eps_high)
            kl = torch.exp(r["ref"][i] - n[i]) - (r["ref"][i] - n[i]) - 1
            terms.append(tis * min(rho * r["advantage"], clipped * r["advantage"]) - c.kl_coef * kl)
        total = total + sum(terms) / (sum(r["mask"]) if c.loss_norm in (None, "sequence") else 1)
    tokens = sum(sum(r["mask"]) for r, _ in copies)
    return -total / {"token": tokens, "constant": len(copies) * (c.constant_length or 1)}.get(c.loss_norm, len(copies))


@settings(deadline=None, max_examples=40)
@given(batches(), st.sampled_from(VARIANTS[:4]))
def test_multiplicities_give_the_loss_and_the_gradient_of_rows_really_copied(rows, variant):
    config = ObjectiveConfig(**variant)
    new = [torch.tensor(r["new"], dtype=torch.float64, requires_grad=True) for r in rows]
    reference = plain_loss(rows, new, config)
    reference.backward()
    live = [i for i, r in enumerate(rows) if not r["dead"]]
    loss, gradients, _ = forward([rows[i] for i in live], config, whole_denominator(rows, config))
    assert loss == pytest.approx(reference.item(), abs=1e-9)
    for i, gradient in zip(live, gradients, strict=True):
        assert gradient == pytest.approx(new[i].grad.tolist(), abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(batches(whole=False), st.sampled_from(VARIANTS), st.integers(0, 5))
def test_micro_batches_add_up_to_the_batch(rows, variant, cut):
    config = ObjectiveConfig(**variant)
    total, live = whole_denominator(rows, config), [r for r in rows if not r["dead"]]
    whole, gradients, sums = forward(live, config, total)
    parts = [part for part in (live[:cut], live[cut:]) if part]
    results = [forward(part, config, total) for part in parts]
    assert sum(r[0] for r in results) == pytest.approx(whole, abs=1e-9)
    for mine, theirs in zip([g for r in results for g in r[1]], gradients, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-9)
    added: dict[str, float] = {}
    for _, _, part in results:
        added = merge(added, part)
    assert added == pytest.approx(sums, abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(batches(whole=False), st.sampled_from(VARIANTS))
def test_doubling_a_whole_batch_leaves_the_loss_unchanged(rows, variant):
    config = ObjectiveConfig(**variant)
    live = [r for r in rows if not r["dead"]]
    once, _, _ = forward(live, config, whole_denominator(rows, config))
    twice, _, _ = forward(live * 2, config, whole_denominator(rows * 2, config))
    assert twice == pytest.approx(once, abs=1e-9)


def one_token(log_ratio, advantage, **variant):
    row = {"mask": [1], "new": [-1.0], "sampler": [-1.0 - log_ratio], "advantage": advantage, "multiplicity": 1}
    config = ObjectiveConfig(eps_low=0.2, eps_high=0.2, **variant)
    return forward([row], config, whole_denominator([row], config))


@pytest.mark.parametrize(("rho", "advantage", "value"), [(1.5, 1.0, 1.2), (0.5, -1.0, -0.8), (0.5, 1.0, 0.5)])
def test_the_clip_acts_where_it_should(rho, advantage, value):
    loss, gradients, sums = one_token(math.log(rho), advantage)
    assert loss == pytest.approx(-value)
    clipped = value != rho * advantage
    assert (gradients[0][0] == 0.0) is clipped
    assert sums["clipped_tokens"] == clipped
    assert sums["ratio_sum"] == pytest.approx(rho)


def test_the_clip_never_acts_on_an_advantage_of_0():
    for rho in (0.1, 9.0):
        assert one_token(math.log(rho), 0.0)[2]["clipped_tokens"] == 0


def test_recomputed_has_a_ratio_of_1_and_a_capped_weight_without_a_gradient():
    for log_gap, weight in ((0.1, math.exp(0.1)), (3.0, 2.0)):
        loss, gradients, sums = one_token(log_gap, 1.0, old="recomputed", tis_cap=2.0)
        assert loss == pytest.approx(-weight)
        assert gradients[0][0] == pytest.approx(-weight), "d rho / d new alone, at rho 1"
        assert sums["ratio_sum"] == pytest.approx(1)
        assert sums["clipped_tokens"] == 0
        assert sums["gap_sum"] == pytest.approx(log_gap)


def test_the_sequence_ratio_is_one_number_a_row_without_length_normalisation():
    row = {"mask": [1, 0, 1], "new": [-1.0, -9.0, -1.0], "sampler": [-1.05, -0.1, -1.02], "advantage": 1.0}
    row |= {"multiplicity": 1}
    config = ObjectiveConfig(ratio="sequence", preset="paper")
    loss, gradients, sums = forward([row], config, whole_denominator([row], config))
    rho = math.exp(0.07)
    assert loss == pytest.approx(-rho)
    assert gradients[0] == pytest.approx([-rho, 0.0, -rho])
    assert sums["ratio_sum"] == pytest.approx(2 * rho)


def test_what_stands_under_the_mask_never_matters():
    row = {"mask": [1, 0], "new": [-1.0, -math.inf], "sampler": [-1.1, -math.inf], "ref": [-1.2, math.nan]}
    row |= {"advantage": 1.0, "multiplicity": 1}
    config = ObjectiveConfig(kl_coef=0.1)
    loss, gradients, sums = forward([row], config, whole_denominator([row], config))
    assert math.isfinite(loss)
    assert gradients[0][1] == 0.0
    assert all(map(math.isfinite, sums.values()))


def test_statistics_count_a_row_by_its_multiplicity():
    row = {"mask": [1, 1], "new": [-1.0, -1.0], "sampler": [-1.5, -1.1], "ref": [-1.0, -2.0], "advantage": 1.0}
    row |= {"multiplicity": 3}
    _, _, sums = forward([row], config := ObjectiveConfig(kl_coef=0.1), whole_denominator([row], config))
    assert sums["tokens"] == 6
    assert sums["clipped_tokens"] == 3
    assert sums["gap_sum"] == pytest.approx(3 * 0.6)
    assert sums["gap_max"] == pytest.approx(0.5)
    assert sums["kl_sum"] == pytest.approx(3 * math.exp(-1.0))


def test_dead_rows_count_in_the_denominator_only():
    assert denominator([1, 2.5], [3, 4], ObjectiveConfig()) == 3.5
    assert denominator([1, 2.5], [3, 4], ObjectiveConfig(loss_norm="token")) == 13
    assert denominator([1, 2.5], [3, 4], ObjectiveConfig(loss_norm="constant", constant_length=10)) == 35
    assert denominator([1, 2.5], [3, 4], ObjectiveConfig(ratio="sequence")) == 3.5


def test_a_row_with_an_empty_mask_is_refused():
    with pytest.raises(InvalidInput, match="empty mask"):
        denominator([1], [0], ObjectiveConfig())


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_value_is_read_from_the_device(variant):
    config = ObjectiveConfig(**variant)
    rows, row = torch.zeros(2, 3, device="meta"), torch.zeros(2, device="meta")  # they hold no values to read
    ref = rows if config.kl_coef else None
    loss, sums = objective(rows, rows, rows, row, row, 1.0, config, ref)
    assert {value.device.type for value in [loss, *sums.values()]} == {"meta"}


def test_a_missing_reference_and_a_needless_old_are_refused():
    one = torch.zeros(1, 1)
    with pytest.raises(InvalidInput, match="reference"):
        objective(one, one, one + 1, one[0], one[0], 1.0, ObjectiveConfig(kl_coef=0.1))
    with pytest.raises(InvalidInput, match="sampler"):
        objective(one, one, one + 1, one[0], one[0], 1.0, ObjectiveConfig(), old=one)


@pytest.mark.parametrize(
    ("variant", "named"),
    [
        ({"tis_cap": 2.0}, "tis_cap"),
        ({"old": "recomputed"}, "tis_cap"),
        ({"ratio": "sequence", "kl_coef": 0.1}, "kl_coef"),
        ({"ratio": "sequence", "loss_norm": "token"}, "loss_norm"),
        ({"ratio": "sequence", "loss_norm": "sequence"}, "loss_norm"),
        ({"ratio": "sequence", "old": "recomputed", "tis_cap": 2.0}, "tis_cap"),
        ({"ratio": "sequence", "old": "recomputed"}, "recomputed"),
        ({"loss_norm": "constant"}, "constant_length"),
        ({"constant_length": 8}, "constant_length"),
        ({"eps_low": 1.5}, "eps_low"),
        ({"preset": "papier"}, "preset"),
        ({"entropy": 0.1}, "entropy: unknown key"),
    ],
)
def test_what_a_variant_cannot_do_is_refused_by_name(variant, named):
    with pytest.raises(UserError, match=named):
        parse(ObjectiveConfig, variant)


def test_the_preset_is_symmetric_and_a_given_key_wins():
    paper = ObjectiveConfig(preset="paper")
    assert (paper.eps_low, paper.eps_high) == (0.2, 0.2)
    assert ObjectiveConfig(preset="paper", eps_high=0.3).eps_high == 0.3
    assert ObjectiveConfig().eps_high == 0.28
    assert ObjectiveConfig.model_validate(paper.model_dump()) == paper
