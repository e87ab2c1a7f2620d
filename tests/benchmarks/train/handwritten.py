"""A plain step, as a good engineer writes it in an afternoon: the yardstick of ours.

Rows sorted by length, micro-batches of 2,048 padded tokens, log-probs from logits of 512 tokens at a time.
"""

from pathlib import Path

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM

from tests.benchmarks.train.rows import Row

BUDGET, CHUNK = 2048, 512
LOW, HIGH = 0.8, 1.28


class HandWritten:
    """The model, its AdamW, and `step`."""

    def __init__(self, folder: Path) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-6, betas=(0.9, 0.95), weight_decay=0.0)

    def step(self, rows: list[Row]) -> tuple[float, float]:
        """One optimiser step; the loss and the norm of the gradient."""
        weight, loss = sum(row.multiplicity for row in rows), 0.0
        for part in _parts(sorted(rows, key=lambda row: len(row.token_ids))):
            tokens = _padded([row.token_ids for row in part], torch.long)
            trained = _padded([row.mask for row in part], torch.bool)[:, 1:]
            old = _padded([row.logprobs for row in part], torch.float32)[:, 1:]
            hidden = self.model.model(tokens, use_cache=False).last_hidden_state[:, :-1]
            rho = (self._logprobs(hidden, tokens[:, 1:]) - old).exp()
            advantage = torch.tensor([[row.advantage] for row in part])
            gain = torch.minimum(rho * advantage, rho.clamp(LOW, HIGH) * advantage).where(trained, 0).sum(1)
            share = torch.tensor([row.multiplicity for row in part]) / weight
            part_loss = -(share * gain / trained.sum(1)).sum()
            part_loss.backward()
            loss += part_loss.item()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()
        return loss, norm.item()

    def _logprobs(self, hidden: Tensor, targets: Tensor) -> Tensor:
        chunks = zip(hidden.flatten(0, 1).split(CHUNK), targets.flatten().split(CHUNK), strict=True)
        picked = [checkpoint(self._pick, h, t, use_reentrant=False) for h, t in chunks]
        return torch.cat(picked).view(targets.shape)

    def _pick(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return self.model.lm_head(hidden).log_softmax(-1).gather(1, targets[:, None])[:, 0]


def _parts(rows: list[Row]) -> list[list[Row]]:
    parts: list[list[Row]] = [[]]
    for row in rows:  # the longest so far
        if parts[-1] and (len(parts[-1]) + 1) * len(row.token_ids) > BUDGET:
            parts.append([])
        parts[-1].append(row)
    return parts


def _padded(rows: list[list], dtype: torch.dtype) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows], dtype=dtype)
