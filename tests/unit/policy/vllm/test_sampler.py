"""The client against a server that does as it should, and then does not."""

import asyncio

import pytest
from starlette.responses import Response

from shared.errors import Conflict, DeadlineExceeded, InvalidInput, Unavailable, UserError
from shared.policy.types import SamplingParams
from shared.schemas import PolicyVersion

from .fake import ROOM

PARAMS = SamplingParams(3, 0.7, (1,))
DEADLINE_S = 30


def version(updates: int) -> PolicyVersion:
    return PolicyVersion(epoch=1, step=updates, updates=updates)


async def test_a_turn_is_what_the_server_sampled(sampler):
    turn = await sampler.generate([5, 6], PARAMS)
    assert (turn.token_ids, turn.logprobs, turn.finish) == ([7, 7, 7], [-1.0] * 3, "length")
    assert turn.version == PolicyVersion(epoch=0, step=0, updates=0)
    assert (sampler.waiting, sampler.turns, sampler.tokens) == (0, 1, 3)
    assert sampler.info["device"] == "vLLM 0.32.0"
    counts = await sampler.statistics()
    assert (counts["requests"], counts["prompt_tokens"], counts["tokens"]) == (1, 2, 3)


async def test_new_weights_are_loaded_between_a_pause_and_a_resume_and_leave_no_copy(sampler, fake, other, tmp_path):
    before = len(fake.calls)
    first = await sampler.load_weights(other(1), version(1))
    second = await sampler.load_weights(other(2), version(2))
    assert len(first) == len(second) == 64
    assert first != second
    load = ["/pause", "/collective_rpc", "/reset_prefix_cache", "/update_weight_version"]
    assert fake.calls[before:] == [*load, "/weight_info", "/weight_checker", "/resume"] * 2
    assert (await sampler.generate([5], PARAMS)).version == version(2)
    assert not any((tmp_path / "weights").iterdir())


async def test_turns_end_under_their_version_and_those_that_come_meanwhile_wait_for_the_new_one(sampler, fake, other):
    fake.held = asyncio.Event()
    running = asyncio.create_task(sampler.generate([5], PARAMS))
    await asyncio.wait_for(fake.generating.wait(), DEADLINE_S)
    load = asyncio.create_task(sampler.load_weights(other(1), version(1)))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(sampler.generate([5], PARAMS))
    await asyncio.sleep(0)
    assert fake.calls.count("/inference/v1/generate") == 1
    assert sampler.waiting == 2
    fake.held.set()
    assert (await running).version == version(0).model_copy(update={"epoch": 0})
    await load
    assert (await waiting).version == version(1)


async def test_turns_that_do_not_end_in_time_keep_the_old_weights(make_sampler, fake, other):
    sampler = make_sampler(sync_s=0.05)
    await sampler.ready()
    fake.held = asyncio.Event()
    running = asyncio.create_task(sampler.generate([5], PARAMS))
    await asyncio.wait_for(fake.generating.wait(), DEADLINE_S)
    with pytest.raises(DeadlineExceeded, match="did not end within"):
        await sampler.load_weights(other(1), version(1))
    fake.held.set()
    assert (await running).version.updates == 0
    assert (await sampler.generate([5], PARAMS)).version.updates == 0  # it goes on
    await sampler.close()


async def failed_load(sampler, folder, error, match):
    """The change fails, and nothing is sampled by weights that nobody knows."""
    with pytest.raises(error, match=match):
        await sampler.load_weights(folder, version(1))
    with pytest.raises(Unavailable, match=match):
        await sampler.generate([5], PARAMS)
    assert "were not taken over" in await asyncio.wait_for(sampler.died(), DEADLINE_S)


async def test_a_refused_reload(sampler, fake, other):
    fake.refuses = True
    await failed_load(sampler, other(1), Unavailable, "out of memory")


async def test_a_server_that_keeps_its_version(sampler, fake, other):
    fake.keeps_version = True
    await failed_load(sampler, other(1), Conflict, "was given weights 1.1.1, and says that it holds 0.0.0")


async def test_a_server_that_answers_well_and_keeps_its_head(sampler, fake, other):
    fake.keeps_head = True
    await failed_load(sampler, other(1), Conflict, "kept .*lm_head.weight")


async def test_a_server_that_keeps_its_prefix_cache(sampler, fake, other):
    fake.keeps_prefixes = True
    await failed_load(sampler, other(1), Unavailable, "kept its prefix cache")


async def test_log_probs_that_are_not_the_trainers(sampler, fake, other):
    asked = []

    async def reference(token_ids, first):
        asked.append((token_ids, first))
        return [-1.25] * (len(token_ids) - first)

    sampler.reference = reference
    await failed_load(sampler, other(1), Conflict, "0.25 from the trainer's on average")
    ((ids, first),) = asked
    assert ids[first:] == [7] * len(ids[first:])
    assert len(ids) <= ROOM


async def test_log_probs_that_are_the_trainers(sampler, other):
    async def reference(token_ids, first):
        return [-1.0005] * (len(token_ids) - first)

    sampler.reference = reference
    await sampler.load_weights(other(1), version(1))
    counts = await sampler.statistics()
    assert counts["probe_gap_mean"] == pytest.approx(5e-4)
    assert counts["loads"] == 1


async def test_a_model_whose_head_is_its_embedding_is_refused_at_start(make_sampler, fake):
    fake.tied = True
    with pytest.raises(UserError, match=r"shared\.policy\.vllm\.folder"):
        await make_sampler().ready()


async def test_a_server_that_was_started_again_is_not_sampled_from(sampler, fake):
    fake.version = "default"
    with pytest.raises(Unavailable, match="was started again"):
        await sampler.generate([5], PARAMS)
    assert "was started again" in await asyncio.wait_for(sampler.died(), DEADLINE_S)


async def test_a_turn_that_the_server_gives_up_is_no_turn(sampler, fake):
    fake.finish = "abort"
    with pytest.raises(Unavailable, match="abort"):
        await sampler.generate([5], PARAMS)
    fake.finish = "stop"
    assert (await sampler.generate([5], PARAMS)).finish == "stop"


async def test_a_server_that_answers_no_more_has_died(sampler, fake):
    fake.down = True
    assert "has not answered" in await asyncio.wait_for(sampler.died(), DEADLINE_S)


async def test_a_server_that_never_answers(make_sampler, fake):
    fake.down = True
    with pytest.raises(Unavailable, match="did not answer within"):
        await make_sampler().ready()


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Response("<html>not here</html>", 404), "answered /health with 404"),
        (Response("<html>welcome</html>"), "answered /version with '<html>welcome"),
        (Response('{"hello": 1}'), r"answered /version with .*hello"),
    ],
    ids=["404", "a page", "other JSON"],
)
async def test_a_url_where_something_else_answers_is_one_line_at_once(make_sampler, fake, answer, told):
    fake.app = answer  # an ASGI app, too
    with pytest.raises(UserError, match=f"the vLLM server is no vLLM server: it {told}"):
        await make_sampler(start_s=3600).ready()


@pytest.mark.parametrize(("ids", "new"), [([], 3), ([5] * ROOM, 1), ([5], 0)])
async def test_what_does_not_fit_is_refused_as_vllm_would_shorten_it(sampler, fake, ids, new):
    with pytest.raises(InvalidInput, match="positions"):
        await sampler.generate(ids, SamplingParams(new))
    assert "/inference/v1/generate" not in fake.calls
