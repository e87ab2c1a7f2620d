"""What every sampler must do, whatever runs behind it: subclass `SamplerContract`, and give it a `started` fixture.

`started` is of class scope (and `loop_scope`), as a start is slow; it yields a `Sampler` on `build_model()` in float32.
Each test begins with those weights. `tolerance` is how far its log-probs may be from those of a plain forward pass.
"""

import asyncio
from pathlib import Path

import pytest
import pytest_asyncio
import torch
from transformers import PreTrainedModel

from shared.errors import InvalidInput, UserError
from shared.policy.types import Completion, Sampler, SamplingParams
from shared.policy.weights import save_weights
from shared.schemas import PolicyVersion

from .tiny import STOP, WORDS, build_model, save_model

LENGTHS = [3, 60, 17, 17, 1, 42, 88]
GREEDY = SamplingParams(8, 0.0)
INITIAL = PolicyVersion(epoch=0, step=0, updates=0)


def version(updates: int) -> PolicyVersion:
    return PolicyVersion(epoch=1, step=updates, updates=updates)


def prompts(lengths: list[int] = LENGTHS, seed: int = 3) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(2, WORDS, (length,), generator=generator).tolist() for length in lengths]


def full_logprobs(model: PreTrainedModel, prompt: list[int], ids: list[int], temperature: float = 1.0) -> list[float]:
    """Log-probs of `ids` after `prompt` from one forward pass over the whole row, without cache or padding."""
    with torch.no_grad():
        logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
    logprobs = (logits.float() / temperature).log_softmax(-1)
    return logprobs.gather(1, torch.tensor(ids)[:, None])[:, 0].tolist()


async def gather(sampler: Sampler, rows: list[list[int]], params: SamplingParams) -> list[Completion]:
    return await asyncio.gather(*(sampler.generate(row, params) for row in rows))


class SamplerContract:
    """The tests. A sampler may decide how it batches, and when new weights take over; not what a log-prob is."""

    pytestmark = pytest.mark.asyncio(loop_scope="class")
    tolerance = 1e-4

    @pytest_asyncio.fixture(loop_scope="class")
    async def sampler(self, started: Sampler, tmp_path: Path) -> Sampler:
        save_weights(build_model(), tmp_path / "initial")
        await started.load_weights(tmp_path / "initial", INITIAL)
        return started

    def check(
        self,
        models: dict[int, PreTrainedModel],
        prompt: list[int],
        completion: Completion,
        temperature: float = 1.0,
    ) -> None:
        """Each token's log-prob is that of its version's weights; `models` are by number of optimiser steps."""
        assert len(completion.token_ids) == len(completion.logprobs) == len(completion.versions)
        by_model = {u: full_logprobs(m, prompt, completion.token_ids, temperature) for u, m in models.items()}
        expected = [by_model[v.updates][i] for i, v in enumerate(completion.versions)]
        assert completion.logprobs == pytest.approx(expected, abs=self.tolerance)
        assert completion.version == min(completion.versions, key=lambda v: v.updates)

    @pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
    async def test_logprobs_are_those_of_a_full_forward_pass(self, sampler: Sampler, temperature: float):
        rows, model = prompts(), {0: build_model()}
        for row, turn in zip(rows, await gather(sampler, rows, SamplingParams(6, temperature)), strict=True):
            assert (len(turn.token_ids), turn.finish, turn.version) == (6, "length", INITIAL)
            self.check(model, row, turn, temperature or 1.0)

    async def test_greedy_turns_do_not_depend_on_the_company(self, sampler: Sampler):
        rows = prompts()
        together = await gather(sampler, rows, GREEDY)
        for row, turn in zip(rows, together, strict=True):
            assert (await sampler.generate(row, GREEDY)).token_ids == turn.token_ids
        first = build_model()(torch.tensor([rows[0]])).logits[0, -1].argmax()
        assert together[0].token_ids[0] == int(first)

    async def test_a_turn_ends_at_its_stop_id_or_its_length(self, sampler: Sampler):
        (row,) = prompts([9])
        free = (await sampler.generate(row, GREEDY)).token_ids
        third = free[2]
        stopped, short = await asyncio.gather(
            sampler.generate(row, SamplingParams(8, 0.0, (third,))), sampler.generate(row, SamplingParams(4, 0.0))
        )
        assert (stopped.token_ids, stopped.finish) == (free[: free.index(third) + 1], "stop")
        assert (short.token_ids, short.finish) == (free[:4], "length")
        last = await sampler.generate(row, SamplingParams(1, 0.0, tuple(free)))
        assert (last.token_ids, last.finish) == (free[:1], "stop")

    async def test_a_conversation_of_some_turns_keeps_its_logprobs(self, sampler: Sampler):
        model = {0: build_model()}

        async def converse(row: list[int], results: list[list[int]]) -> None:
            for result in results:
                turn = await sampler.generate(row, SamplingParams(5, 1.0, (STOP,)))
                self.check(model, row, turn)
                row = row + turn.token_ids + result

        shared = prompts([12])[0]
        results = prompts([3, 22, 7, 11, 1, 2, 13, 9], seed=5)
        await asyncio.gather(*(converse(shared + results[i], (results[i:] + results[:i])[:3]) for i in range(8)))

    async def test_new_weights_are_confirmed_and_used(self, sampler: Sampler, tmp_path: Path):
        rows, other = prompts(), build_model(seed=1)  # tied: its head is the new embedding, too
        before = await gather(sampler, rows, GREEDY)
        written = save_weights(other, tmp_path / "new")
        assert await sampler.load_weights(tmp_path / "new", version(3)) == written
        for row, old, turn in zip(rows, before, await gather(sampler, rows, GREEDY), strict=True):
            assert turn.versions == [version(3)] * 8
            assert turn.logprobs != old.logprobs  # nothing was kept of what the old weights made of this prompt
            self.check({3: other}, row, turn)

    async def test_weights_that_change_under_load_lose_no_turn_and_each_token_has_its_version(
        self, sampler: Sampler, tmp_path: Path
    ):
        models = {u: build_model(seed=u) for u in range(4)}
        rows = prompts([3, 20, 9, 14, 5, 5, 30, 2])
        turns = [asyncio.create_task(sampler.generate(row, SamplingParams(90))) for row in rows]
        for updates in (1, 2, 3):
            save_weights(models[updates], tmp_path / str(updates))
            await sampler.load_weights(tmp_path / str(updates), version(updates))
        later = await sampler.generate(rows[0], SamplingParams(4))
        assert later.versions == [version(3)] * 4
        for row, turn in zip(rows, await asyncio.gather(*turns), strict=True):
            assert len(turn.token_ids) == 90
            self.check(models, row, turn)

    async def test_a_turn_that_is_given_up_leaves_the_others_alone(self, sampler: Sampler):
        rows = prompts()
        alone = await sampler.generate(rows[1], GREEDY)
        given_up = [asyncio.create_task(sampler.generate(row, SamplingParams(38))) for row in rows]
        await asyncio.sleep(0)
        kept = asyncio.create_task(sampler.generate(rows[1], GREEDY))
        for task in given_up:
            task.cancel()
        assert (await kept).token_ids == alone.token_ids
        assert all(
            isinstance(e, asyncio.CancelledError) for e in await asyncio.gather(*given_up, return_exceptions=True)
        )

    @pytest.mark.parametrize(("ids", "new"), [([], 3), ([WORDS], 3), ([-1], 3), ([5] * 126, 3), ([5], 0), ([5], -1)])
    async def test_a_request_that_cannot_run_fails_alone(self, sampler: Sampler, ids: list[int], new: int):
        good = asyncio.create_task(sampler.generate([5, 6, 7], GREEDY))
        with pytest.raises(InvalidInput):
            await sampler.generate(ids, SamplingParams(new))
        assert len((await good).token_ids) == 8

    async def test_a_checkpoint_is_evaluated_beside_the_live_weights(self, sampler: Sampler, tmp_path: Path):
        (row,), folder = prompts([9]), save_model(tmp_path / "saved", seed=1)
        live, saved = await asyncio.gather(
            sampler.generate(row, GREEDY), sampler.generate(row, GREEDY, checkpoint=folder)
        )
        self.check({0: build_model()}, row, live)
        self.check({0: build_model(seed=1)}, row, saved)
        with pytest.raises(UserError, match="absent"):
            await sampler.generate(row, GREEDY, checkpoint=tmp_path / "absent")
