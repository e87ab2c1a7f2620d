"""The clipped surrogate objective (M-GRPO, arXiv 2511.13288, Eqs 14-19), one micro-batch at a time.

    loss = - sum over rows of multiplicity * row objective / denominator of the whole batch
    row objective = over the row's trained tokens: min(rho * A, clip(rho, 1 - eps_low, 1 + eps_high) * A) - kl_coef * KL

`objective` sees the live rows of one micro-batch; `denominator` sees every row of the batch, dead ones too. So the
losses of the micro-batches, and their gradients, add up to those of the batch in which each copy really stands.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from shared.errors import InvalidInput
from shared.mgrpo.config import ObjectiveConfig


def denominator(multiplicities: Iterable[float], token_counts: Iterable[int], config: ObjectiveConfig) -> float:
    """The whole batch's normaliser, over all its rows, those of dead groups included.

    Rows for `sequence`, rows' trained tokens for `token`, rows times `constant_length` for `constant`; each row is
    counted by its multiplicity. `token_counts` are trained tokens; InvalidInput for a row that has none.
    """
    rows = list(zip(multiplicities, token_counts, strict=True))
    if any(tokens < 1 for _, tokens in rows):
        raise InvalidInput("a row has an empty mask: nothing of it was sampled by this policy")
    if config.loss_norm == "token":
        return float(sum(m * tokens for m, tokens in rows))
    return float(sum(m for m, _ in rows)) * (config.constant_length or 1)


def objective(
    new: Tensor,
    sampled: Tensor,
    mask: Tensor,
    advantages: Tensor,
    multiplicities: Tensor,
    denominator: float,
    config: ObjectiveConfig,
    ref: Tensor | None = None,
    old: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of one micro-batch of live rows, and its statistics as sums (`merge` adds them, once they are read).

    `new` (with gradient), `sampled`, `ref`: log-probs [rows, length]; `mask` [rows, length] is 1 on trained tokens, and
    where it is 0 the log-probs may hold anything; `advantages`, `multiplicities`: [rows]; `denominator`: of that name.
    Nothing here waits for the device: a row that has no trained token is `denominator`'s to refuse.
    `old` defaults to `new.detach()` for old 'recomputed', which one optimiser step a batch makes exact.
    """
    trained = mask.bool()
    _check(config, ref, old)
    before = (new if old is None else old).detach()
    gap = _difference(before, sampled, trained)
    rho = _ratio(_difference(new, sampled if config.old == "sampled" else before, trained), config)
    advantage = advantages.unsqueeze(1)
    surrogate = torch.minimum(rho * advantage, rho.clamp(1 - config.eps_low, 1 + config.eps_high) * advantage)
    if config.tis_cap is not None:
        surrogate = surrogate * gap.exp().clamp(max=config.tis_cap)
    kl = torch.zeros_like(new) if ref is None else _k3(_difference(ref, new, trained))
    row_objective = torch.where(trained, surrogate - config.kl_coef * kl, 0).sum(dim=1)
    if config.loss_norm in (None, "sequence"):
        row_objective = row_objective / trained.sum(dim=1)
    loss = -(multiplicities * row_objective).sum() / denominator
    acts = torch.where(advantage > 0, rho > 1 + config.eps_high, (rho < 1 - config.eps_low) & (advantage < 0))
    return loss, _sums(trained * multiplicities.unsqueeze(1), acts, rho, gap, kl)


def _check(config: ObjectiveConfig, ref: Tensor | None, old: Tensor | None) -> None:
    if config.kl_coef and ref is None:
        raise InvalidInput("kl_coef is set, but there are no log-probs of the reference model")
    if old is not None and config.old == "sampled":
        raise InvalidInput("old 'sampled' takes its old log-probs from the sampler")


def _ratio(log_ratio: Tensor, config: ObjectiveConfig) -> Tensor:
    """rho a token (Eq. 15), or the whole row's, the same at each of its tokens."""
    if config.ratio == "sequence":
        log_ratio = log_ratio.sum(dim=1, keepdim=True).expand_as(log_ratio)
    return log_ratio.exp()


def _difference(a: Tensor, b: Tensor, trained: Tensor) -> Tensor:
    """a - b on trained tokens, else 0: what stands under the mask must not reach the exponential."""
    return torch.where(trained, a - b, 0)


def _k3(ref_minus_new: Tensor) -> Tensor:
    """The k3 estimator of KL(new || ref) a token, never negative (Schulman, 2020)."""
    return ref_minus_new.exp() - ref_minus_new - 1


def _sums(weight: Tensor, acts: Tensor, rho: Tensor, gap: Tensor, kl: Tensor) -> dict[str, Tensor]:
    """Sums over trained tokens, each counted by its row's multiplicity; `gap_max` is a maximum."""
    with torch.no_grad():
        terms = {"tokens": 1.0, "clipped_tokens": acts, "ratio_sum": rho, "gap_sum": gap.abs(), "kl_sum": kl}
        return {key: (weight * term).sum() for key, term in terms.items()} | {"gap_max": gap.abs().max()}


def merge(a: dict[str, float], b: dict[str, float]) -> dict[str, float]:
    """The statistics of two micro-batches together: sums add, maxima do not."""
    joined = {key: a.get(key, 0.0) + b.get(key, 0.0) for key in a | b}
    return joined | {key: max(a.get(key, 0.0), b.get(key, 0.0)) for key in joined if key.endswith("_max")}
