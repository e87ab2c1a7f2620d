"""The sampler in this process: it batches all that still run, and is the same each time."""

import asyncio

import pytest
import torch

from shared.errors import InvalidInput
from shared.policy.model import load_model
from shared.policy.types import SamplingParams
from shared.policy.warmup import lockstep
from shared.policy.warmup.lockstep import VERSION, LockstepSampler

PARAMS = SamplingParams(max_new_tokens=3, stop_ids=(1,))


@pytest.fixture
def model(model_folder):
    return load_model(model_folder, torch.device("cpu"))


def turns(count):
    async def episode(sampler):
        ids = [2, 3]
        for _ in range(count):
            ids += (await sampler.generate(ids, PARAMS)).token_ids
        return ids

    return episode


async def test_episodes_of_all_lengths_finish_and_keep_their_order(model):
    results = await LockstepSampler(model, 0).run([turns(count) for count in (3, 0, 1, 2)])
    assert [len(ids) > 2 for ids in results] == [True, False, True, True]
    assert all(ids[:2] == [2, 3] for ids in results)


async def test_a_seed_gives_the_same_draws(model):
    runs = [await LockstepSampler(model, seed).run([turns(3)] * 5) for seed in (4, 4, 5)]
    assert runs[0] == runs[1] != runs[2]


async def test_every_batch_holds_all_that_still_run(model, monkeypatch):
    sizes, real = [], lockstep.sample

    def counted(model, prompts, *rest):
        sizes.append(len(prompts))
        return real(model, prompts, *rest)

    monkeypatch.setattr(lockstep, "sample", counted)
    await LockstepSampler(model, 0).run([turns(count) for count in (1, 3, 3, 2)])
    assert sizes == [4, 3, 2]


async def test_one_that_fails_ends_them_all(model):
    async def fails(sampler):
        await sampler.generate([2], PARAMS)
        raise InvalidInput("no")

    async with asyncio.timeout(20):
        with pytest.raises(ExceptionGroup):
            await LockstepSampler(model, 0).run([fails, turns(2), turns(3)])


async def test_it_has_one_set_of_weights(model, tmp_path):
    sampler = LockstepSampler(model, 0)
    with pytest.raises(InvalidInput):
        await sampler.generate([2], PARAMS, checkpoint=tmp_path)
    with pytest.raises(InvalidInput):
        await sampler.load_weights(tmp_path, VERSION)
