import json
import math

import pytest

from shared.errors import Conflict
from shared.policy.types import Completion
from shared.policy.vllm.probe import PROMPT_TOKENS, SAMPLED_TOKENS, Probe
from shared.schemas import PolicyVersion

VERSION = PolicyVersion(epoch=1, step=2, updates=2)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"vocab_size": 100}))
    return tmp_path


@pytest.mark.parametrize("room", [8, 17, 128, 32768])
def test_the_prompt_fits_and_is_the_same_each_time(folder, room):
    probe = Probe(folder, room, 0.7, 0.1)
    assert 1 <= len(probe.prompt) <= PROMPT_TOKENS
    assert 1 <= probe.params.max_new_tokens <= SAMPLED_TOKENS
    assert len(probe.prompt) + probe.params.max_new_tokens <= room
    assert all(0 <= token < 100 for token in probe.prompt)
    assert probe.params.temperature == 0.7
    assert probe.prompt == Probe(folder, room, 1.0, 0.1).prompt


@pytest.mark.parametrize(("off", "passes"), [(0.0, True), (0.05, True), (0.2, False), (math.nan, False)])
async def test_what_is_too_far_is_a_conflict(folder, off, passes):
    probe = Probe(folder, 128, 1.0, 0.1)
    turn = Completion([1, 2], [-1.0, -2.0], VERSION, "length")

    async def reference(token_ids, first):
        assert token_ids == [*probe.prompt, 1, 2]
        return [-1.0 + off, -2.0 + off]

    if passes:
        await probe.check(turn, reference)
        assert probe.gap_mean == pytest.approx(off)
    else:
        with pytest.raises(Conflict, match=r"max_probe_gap, 0\.1"):
            await probe.check(turn, reference)
