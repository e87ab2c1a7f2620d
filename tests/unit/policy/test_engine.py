"""Continuous batching, token by token, on a small model in this process."""

import pytest
import torch

from shared.errors import UserError
from shared.policy.engine import Engine
from shared.policy.kv_rows import cache_shape
from shared.policy.rows_attention import _Group
from shared.policy.sampling import check_sampling
from shared.policy.turns import Prompt, Turn

from .sampler_contract import full_logprobs, prompts
from .test_sampling import sliding_model
from .tiny import build_model

ROOM = 2**24


def engine(model, *, rows=64, room=ROOM, version="old"):
    return Engine(model, rows, room, torch.Generator().manual_seed(0), version)


def prompt(ids, new=6, temperature=1.0, stop=()):
    return Prompt(list(ids), new, frozenset(stop), temperature)


def finish(engine: Engine) -> dict[object, Turn]:
    turns = {}
    while engine.unanswered:
        turns |= engine.step()
    return turns


def check(model, ids, turn, temperature=1.0, abs=1e-5):
    assert turn.logprobs == pytest.approx(full_logprobs(model, list(ids), turn.token_ids, temperature), abs=abs)


def test_requests_join_and_leave_between_tokens():
    model = build_model()
    plain, (long, short) = build_model(), prompts([9, 30])
    running = engine(model)
    running.add("long", prompt(long, 10))
    steps = [running.step() for _ in range(4)]
    running.add("short", prompt(short, 3))
    steps += [running.step() for _ in range(6)]
    assert [[key for key, _ in ended] for ended in steps] == [[]] * 6 + [["short"]] + [[]] * 2 + [["long"]]
    assert (running.counts.steps, running.counts.largest_batch, running.unanswered) == (10, 2, 0)
    check(plain, short, steps[6][0][1])
    check(plain, long, steps[9][0][1])


def test_a_next_turn_feeds_only_what_is_new_and_has_the_logprobs_of_one_that_is_fed_whole():
    model, plain = build_model(), build_model()
    reusing = engine(model)
    row, fed = prompts([40])[0], []
    for new in prompts([7, 20, 3], seed=5):
        before = reusing.counts.prompt_tokens
        reusing.add("turn", prompt(row, 8))
        turn = finish(reusing)["turn"]
        fed.append(reusing.counts.prompt_tokens - before)
        check(plain, row, turn)
        row = row + turn.token_ids + new
    assert fed == [40, 1 + 7, 1 + 20]  # the last sampled token of a turn has not been fed yet


def test_prompts_that_begin_alike_feed_their_beginning_once():
    model, plain = build_model(), build_model()
    shared, rests = prompts([80])[0], prompts([5, 1, 9, 9, 2, 30], seed=5)
    running = engine(model)
    for key, rest in enumerate(rests):
        running.add(key, prompt(shared + rest))
    turns = finish(running)
    assert running.counts.prompt_tokens <= 80 + sum(map(len, rests))
    assert running.counts.steps == 6 + 1  # the others join after the first one's first token
    for key, rest in enumerate(rests):
        check(plain, shared + rest, turns[key])


def test_long_prompts_of_unlike_length_need_no_mask(monkeypatch):
    model, plain = build_model(num_key_value_heads=1), build_model(num_key_value_heads=1)
    monkeypatch.setattr("shared.policy.rows_attention.ALONE", 30)
    running, rows, masks = engine(model), prompts([4, 9, 30, 31, 60, 60]), []
    mask = _Group._mask
    monkeypatch.setattr(_Group, "_mask", lambda group, *rest: masks.append(group._count) or mask(group, *rest))
    for key, row in enumerate(rows):
        running.add(key, prompt(row, 1))
    for key, turn in finish(running).items():
        check(plain, rows[key], turn)
    assert masks == [9]  # of the two short ones, in the first layer


@pytest.mark.parametrize("make", [build_model, sliding_model, lambda: build_model(num_key_value_heads=1)])
def test_a_mask_that_would_be_large_is_made_in_parts(monkeypatch, make):
    rows, rests = prompts([80, 80, 9]), prompts([40, 25, 30], seed=5)

    def second_turns():
        running, masks = engine(make()), []
        made = _Group._mask
        with monkeypatch.context() as context:
            context.setattr(_Group, "_mask", lambda *args: masks.append(made(*args)) or masks[-1])
            for texts in (rows, [row + rest for row, rest in zip(rows, rests, strict=True)]):
                for key, row in enumerate(texts):
                    running.add(key, prompt(row, 3))
                turns = finish(running)
        return turns, max(mask.numel() for mask in masks)

    whole, largest = second_turns()
    monkeypatch.setattr("shared.policy.rows_attention.MASK", 1000)
    parts, bounded = second_turns()
    assert bounded <= 1000 < largest
    for key, turn in whole.items():
        assert parts[key].token_ids == turn.token_ids
        assert parts[key].logprobs == pytest.approx(turn.logprobs, abs=1e-5)


def test_new_weights_come_between_tokens_and_nothing_old_is_used_with_them():
    model, old, new = build_model(), build_model(), build_model(seed=1)
    running = engine(model)
    rows = prompts([50, 11, 3])
    for key, row in enumerate(rows):
        running.add(key, prompt(row, 8))
    for _ in range(3):
        running.step()
    running.add("later", prompt(rows[0], 4))
    model.load_state_dict(new.state_dict())
    reused = running.counts.reused_tokens
    running.renew("new")
    turns = finish(running)
    for key, row in enumerate(rows):
        assert turns[key].spans == [(3, "old"), (5, "new")]
        ids = turns[key].token_ids
        expected = full_logprobs(old, row, ids)[:3] + full_logprobs(new, row, ids)[3:]
        assert turns[key].logprobs == pytest.approx(expected, abs=1e-5)
    assert turns["later"].spans == [(4, "new")]
    check(new, rows[0], turns["later"])
    assert reused == 0
    running.add("next", prompt(rows[0] + turns["later"].token_ids + [5]))
    check(new, rows[0] + turns["later"].token_ids + [5], finish(running)["next"])
    assert running.counts.reused_tokens >= 53


def test_a_prefix_of_other_weights_is_never_found():
    model, new = build_model(), build_model(seed=1)
    running = engine(model)
    (row,) = prompts([60])
    running.add("old", prompt(row))
    finish(running)
    model.load_state_dict(new.state_dict())
    running.renew("new")
    running.add("new", prompt(row))
    check(new, row, finish(running)["new"])
    assert running.counts.reused_tokens == 0


def test_a_cancelled_request_frees_its_place_at_once():
    model, plain = build_model(), build_model()
    running = engine(model, rows=2)
    rows = prompts([9, 12, 5])
    for key, row in enumerate(rows):
        running.add(key, prompt(row, 40 if key < 2 else 3))
    running.step()
    running.cancel(0)
    ended = [running.step() for _ in range(3)]
    assert [[key for key, _ in turns] for turns in ended] == [[], [], [2]]
    check(plain, rows[2], ended[2][0][1])
    running.cancel("never asked")
    check(plain, rows[1], finish(running)[1])  # its row moved into the place of the cancelled one
    running.add(3, prompt(rows[0]))
    running.cancel(3)
    assert running.unanswered == 0


def test_temperatures_share_a_batch():
    model, plain = build_model(), build_model()
    running = engine(model)
    (row,) = prompts([9])
    temperatures = [1.0, 0.0, 0.5, 0.0]
    for key, temperature in enumerate(temperatures):
        running.add(key, prompt(row, 6, temperature))
    turns = finish(running)
    assert running.counts.steps == 6
    assert turns[1].token_ids == turns[3].token_ids != turns[0].token_ids
    for key, temperature in enumerate(temperatures):
        check(plain, row, turns[key], temperature or 1.0)


def test_keys_and_values_stay_within_their_bound():
    plain = build_model()
    token = cache_shape(plain).token_bytes
    running = engine(build_model(), room=3 * 64 * token)  # three short rows
    rows = prompts([20] * 8)
    for key, row in enumerate(rows):
        running.add(key, prompt(row, 10))
    turns = finish(running)
    assert running.counts.largest_batch == 3
    for key, row in enumerate(rows):
        check(plain, row, turns[key])
    assert running._block.bytes + running._kept.bytes <= 3 * 64 * token

    (long,) = prompts([120])
    narrow = engine(build_model(), room=64 * token)  # not even one, but one always runs
    narrow.add("long", prompt(long))
    check(plain, long, finish(narrow)["long"])
    for key, row in enumerate(rows):
        narrow.add(key, prompt(row, 10))
    for key, turn in finish(narrow).items():
        check(plain, rows[key], turn)


def test_what_is_kept_makes_room_for_rows_that_join():
    model = build_model()
    room = 4 * 64 * cache_shape(model).token_bytes
    running = engine(model, room=room)
    for key, row in enumerate(prompts([40] * 3)):
        running.add(key, prompt(row))
        finish(running)
    kept = len(running._kept)
    assert kept == 3
    for key, row in enumerate(prompts([30] * 4, seed=5)):
        running.add(key, prompt(row))
    running.step()
    assert running._block.bytes == room
    assert running._kept.bytes == 0


def test_after_a_burst_the_next_turns_find_their_beginnings_again():
    model, plain = build_model(), build_model()
    room = 16 * 64 * cache_shape(model).token_bytes
    running = engine(model, room=room)
    for key, row in enumerate(prompts([20] * 16)):
        running.add(key, prompt(row, 9))
    finish(running)
    assert running.counts.largest_batch == 16  # all of the room
    before = running.counts.reused_tokens
    (row,) = prompts([50], seed=5)
    for new in prompts([2, 1], seed=6):
        running.add("turn", prompt(row, 3))
        turn = finish(running)["turn"]
        check(plain, row, turn)
        row = row + turn.token_ids + new
    assert running.counts.reused_tokens - before == 50 + 2
    assert running._block.bytes + running._kept.bytes <= room


def test_one_long_row_does_not_widen_the_block_for_ever():
    running = engine(build_model(), rows=4)
    running.add("long", prompt(prompts([120])[0], 8))
    finish(running)
    assert running._block.capacity == 128
    for key, row in enumerate(prompts([10] * 4)):
        running.add(key, prompt(row))
    finish(running)
    assert running._block.capacity == 64


def test_a_model_that_attends_in_another_way_is_refused_by_name(monkeypatch):
    check_sampling(build_model().bfloat16())
    model = build_model()
    check_sampling(model)
    attention = type(model.model.layers[0].self_attn)
    plain = attention.forward
    shifted = lambda self, hidden, **options: plain(self, hidden + hidden.cumsum(1), **options)  # noqa: E731
    monkeypatch.setattr(attention, "forward", shifted)
    with pytest.raises(UserError, match="cannot run LlamaForCausalLM"):
        check_sampling(model)
