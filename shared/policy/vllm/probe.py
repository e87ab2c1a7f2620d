"""The probe: after new weights, a few tokens are sampled, and the trainer says what their log-probs should be.

It goes the way that every turn goes: the same route, temperature and prefix cache.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from shared.errors import Conflict
from shared.policy.types import Completion, SamplingParams

Reference = Callable[[list[int], int], Awaitable[list[float]]]
"""From token ids, and the place of the first one that is asked for: the trainer's log-probs of those from there on."""

PROMPT_TOKENS = 160
"""More than a block of the prefix cache holds, so that a block of the old weights would show."""
SAMPLED_TOKENS = 16
STRIDE = 7919
GAPS = {"float32": 1e-3, "bfloat16": 0.1}
"""What is let pass unless it is configured: the mean difference over the sampled tokens, in nats."""


class Probe:
    """Compares a sampler with its trainer. `gap_mean` and `gap_max`, in nats, are those of the last comparison."""

    def __init__(self, model: Path, max_tokens: int, temperature: float, bound: float) -> None:
        """`max_tokens`: those that a request may have in all; `bound`: what `gap_mean` may be."""
        config = json.loads((model / "config.json").read_text())
        words = config.get("text_config", config)["vocab_size"]
        length = max(1, min(PROMPT_TOKENS, max_tokens - SAMPLED_TOKENS))
        self.prompt = [place * STRIDE % words for place in range(length)]
        self.params = SamplingParams(min(SAMPLED_TOKENS, max_tokens - length), temperature)
        self.gap_mean = self.gap_max = 0.0
        self._bound = bound

    @property
    def gaps(self) -> dict[str, float]:
        """Those of the last comparison, as statistics."""
        return {"probe_gap_mean": self.gap_mean, "probe_gap_max": self.gap_max}

    async def check(self, turn: Completion, reference: Reference) -> None:
        """`turn` was sampled after the prompt; Conflict where its log-probs are too far from the trainer's."""
        expected = await reference([*self.prompt, *turn.token_ids], len(self.prompt))
        self.gap_mean, self.gap_max = gaps(turn.logprobs, expected)
        if not self.gap_mean <= self._bound:
            raise Conflict(
                f"vLLM says that it holds weights {turn.version}, but its log-probs are {self.gap_mean:.3g} from the "
                f"trainer's on average ({self.gap_max:.3g} at most), above policy.vllm.max_probe_gap, {self._bound:g}"
            )


def gaps(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """The mean and the largest absolute difference."""
    differences = [abs(a - b) for a, b in zip(ours, theirs, strict=True)]
    return sum(differences) / len(differences), max(differences)
