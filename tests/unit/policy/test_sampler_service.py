"""The sampler's process over real pipes: what shares a batch, what waits, what is refused."""

import contextlib
import json
import os
import shutil
import threading
from collections.abc import Generator

import pytest
import torch

from shared.policy.channel import Channel
from shared.policy.sampler_child import SamplerService
from shared.policy.weights import FILE, file_checksum

from .tiny import WORDS, build_model, save_model

DEADLINE_S = 30


@pytest.fixture
def settings(model_folder):
    bounds = {"threads": 1, "max_batch": 64, "cache_bytes": 2**24}
    return {"model": str(model_folder), "device": "cpu", "dtype": "float32", "seed": 1} | bounds


@contextlib.contextmanager
def serving(settings, *first: dict) -> Generator[Channel]:
    """A service whose pipe holds the `first` messages before it runs, so that its batches depend on no timing."""
    down, up = os.pipe(), os.pipe()
    ours = Channel(up[0], down[1])
    ours.send(*first)
    service = SamplerService(settings)

    def run() -> None:
        with contextlib.suppress(EOFError):
            service.run(Channel(down[0], up[1]))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ours
    finally:
        os.close(down[1])
        thread.join(DEADLINE_S)
        for descriptor in (down[0], *up):
            os.close(descriptor)
        assert not thread.is_alive()


def generate(id_, ids=(5, 6, 7), *, new=3, temperature=0.0, checkpoint=None):
    arguments = {"token_ids": list(ids), "max_new_tokens": new, "temperature": temperature, "stop_ids": []}
    return {"id": id_, "method": "generate", "arguments": arguments | {"checkpoint": checkpoint}}


def replies(channel, count):
    """The next `count` replies by id."""
    received = []
    while len(received) < count:
        more = channel.receive(DEADLINE_S)
        assert more, f"{len(received)} of {count} replies within {DEADLINE_S} s"
        received += more
    return {message["id"]: message.get("result", message.get("error")) for message in received}


def statistics(channel):
    channel.send({"id": 0, "method": "statistics", "arguments": {}})
    return replies(channel, 1)[0]


@pytest.mark.parametrize(("max_batch", "steps", "largest"), [(64, 3, 10), (4, 9, 4)])
def test_what_waits_shares_a_batch_up_to_its_bound(settings, max_batch, steps, largest):
    with serving(settings | {"max_batch": max_batch}, *(generate(i) for i in range(1, 11))) as channel:
        answered = replies(channel, 10)
        counts = statistics(channel)
    assert set(answered) == set(range(1, 11))
    assert (counts["requests"], counts["steps"], counts["largest_batch"]) == (10, steps, largest)
    assert counts["tokens"] == 30


def test_temperatures_share_a_batch_and_checkpoints_do_not(settings, tmp_path):
    other = str(save_model(tmp_path / "other", seed=1))
    requests = [generate(1), generate(2, temperature=1.0), generate(3, checkpoint=other), generate(4)]
    with serving(settings, *requests) as channel:
        answered = replies(channel, 4)
        counts = statistics(channel)
    assert (counts["steps"], counts["largest_batch"]) == (3 + 3, 3)
    assert answered[1] == answered[4]
    assert answered[1]["token_ids"] != answered[3]["token_ids"]


def test_a_cancelled_request_leaves_the_queue(settings):
    with serving(settings, generate(1), generate(2), {"cancel": 1}, {"cancel": 99}) as channel:
        assert set(replies(channel, 1)) == {2}
        assert statistics(channel)["requests"] == 1


def test_new_weights_come_with_their_version(settings, tmp_path):
    other = save_model(tmp_path / "other", seed=1)
    version = {"epoch": 2, "step": 5, "updates": 4}
    load = {"id": 2, "method": "load", "arguments": {"folder": str(other), "version": version}}
    with serving(settings, generate(1)) as channel:
        old = replies(channel, 1)[1]
        channel.send(load, generate(3), generate(4, checkpoint=str(other)))
        new = replies(channel, 3)
    assert old["version"] == {"epoch": 0, "step": 0, "updates": 0}
    assert new[3]["version"] == version
    assert new[3]["token_ids"] == new[4]["token_ids"] != old["token_ids"]
    assert len(new[2]["checksum"]) == 64


@pytest.mark.parametrize("read", ["checkpoint_engines.saved_version", "sampler_child.load_model"])
def test_a_checkpoint_that_is_removed_while_it_is_read_fails_alone(settings, tmp_path, monkeypatch, read):
    folder = save_model(tmp_path / "c", seed=1)

    def removed(*_):
        raise FileNotFoundError(folder)

    with serving(settings, generate(1)) as channel:
        replies(channel, 1)
        with monkeypatch.context() as context:
            context.setattr(f"shared.policy.{read}", removed)
            channel.send(generate(2, checkpoint=str(folder)))
            gone = replies(channel, 1)[2]
        channel.send(generate(3))
        assert len(replies(channel, 1)[3]["token_ids"]) == 3
    assert gone["type"] == "urn:tandem:not-found"


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_checkpoint_whose_logits_are_not_finite_fails_alone(settings, tmp_path, temperature):
    folder, spoilt = save_model(tmp_path / "c"), build_model()
    spoilt.model.norm.weight.data[0] = float("nan")
    spoilt.save_pretrained(folder)
    broken = [generate(i, checkpoint=str(folder), temperature=temperature) for i in (2, 3)]
    with serving(settings, generate(1), *broken, generate(4)) as channel:
        answered = replies(channel, 4)
    assert answered[2] == answered[3]
    assert answered[2]["type"] == "urn:tandem:unavailable"
    assert answered[2]["detail"] == "the model's logits are not finite"
    assert len(answered[1]["token_ids"]) == len(answered[4]["token_ids"]) == 3


@pytest.mark.parametrize("where", ["engine.pick", "kv_rows.KeyValueRows.reserve"])
def test_a_gpu_that_is_full_ends_the_requests_and_not_the_sampler(settings, monkeypatch, where):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.\nMore.")

    with serving(settings, generate(1)) as channel:
        replies(channel, 1)
        with monkeypatch.context() as context:
            context.setattr(f"shared.policy.{where}", full)
            channel.send(generate(2, ids=range(2, 60)), generate(3))
            answered = replies(channel, 2)
        channel.send(generate(4))
        assert len(replies(channel, 1)[4]["token_ids"]) == 3
        assert statistics(channel)["waiting"] == 0
    for refused in answered.values():
        assert refused["type"] == "urn:tandem:unavailable"
        assert "policy.cache_mib" in refused["detail"]
        assert refused["detail"].endswith("CUDA out of memory.")


def test_a_checkpoint_that_does_not_fit_the_gpu_fails_alone(settings, tmp_path, monkeypatch):
    folder = save_model(tmp_path / "c", seed=1)

    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with serving(settings, generate(1)) as channel:
        replies(channel, 1)
        monkeypatch.setattr("shared.policy.sampler_child.load_model", full)
        channel.send(generate(2, checkpoint=str(folder)), generate(3))
        answered = replies(channel, 2)
    assert answered[2]["type"] == "urn:tandem:unavailable"
    assert len(answered[3]["token_ids"]) == 3


@pytest.mark.parametrize("text", ["", "{}", "[]"])
def test_a_checkpoint_whose_description_is_spoilt_fails_alone(settings, tmp_path, text):
    folder = save_model(tmp_path / "c", seed=1)
    (folder / "trainer.json").write_text(text)
    with serving(settings, generate(1), generate(2, checkpoint=str(folder))) as channel:
        answered = replies(channel, 2)
    assert "trainer.json is not that of a checkpoint" in answered[2]["detail"]
    assert len(answered[1]["token_ids"]) == 3


def shorter(file):
    file.write_bytes(file.read_bytes()[:-100])


def flipped(file):
    file.write_bytes(file.read_bytes()[:-1] + b"\x7f")


def of_another_model(file):
    build_model(hidden_size=32).save_pretrained(file.parent)


@pytest.mark.parametrize("spoil", [shorter, flipped])
def test_a_checkpoint_whose_weights_are_damaged_fails_alone(settings, tmp_path, spoil):
    folder = save_model(tmp_path / "c", seed=1)
    meta = {"step": 1, "updates": 1, "pending_ack": {"epoch": 1}, "checksum": file_checksum(folder / FILE)}
    (folder / "trainer.json").write_text(json.dumps(meta))
    with serving(settings, generate(1, checkpoint=str(folder))) as channel:
        assert len(replies(channel, 1)[1]["token_ids"]) == 3
        spoil(folder / FILE)
        shutil.copytree(folder, tmp_path / "spoilt")
        channel.send(generate(2, checkpoint=str(tmp_path / "spoilt")), generate(3))
        answered = replies(channel, 2)
    assert answered[2]["type"] == "urn:tandem:user-error"
    assert "spoilt is damaged" in answered[2]["detail"]
    assert len(answered[3]["token_ids"]) == 3


@pytest.mark.parametrize(("spoil", "said"), [(shorter, "is damaged"), (of_another_model, "of another model")])
def test_new_weights_that_cannot_be_read_are_one_line_and_leave_the_old_ones(settings, tmp_path, spoil, said):
    other = save_model(tmp_path / "other", seed=1)
    spoil(other / FILE)
    load = {"id": 2, "method": "load", "arguments": {"folder": str(other), "version": {}}}
    with serving(settings, generate(1), load, generate(3)) as channel:
        answered = replies(channel, 3)
    assert answered[2]["type"] == "urn:tandem:conflict"
    assert said in answered[2]["detail"]
    assert "\n" not in answered[2]["detail"]
    assert answered[1] == answered[3]


def test_a_checkpoint_that_was_written_again_is_read_again(settings, tmp_path):
    folder = save_model(tmp_path / "c", seed=1)
    with serving(settings, generate(1, checkpoint=str(folder))) as channel:
        first = replies(channel, 1)[1]
        shutil.rmtree(folder)
        save_model(folder, seed=2)
        channel.send(generate(2, checkpoint=str(folder)))
        second = replies(channel, 1)[2]
    assert first["token_ids"] != second["token_ids"]


@pytest.mark.parametrize(
    "bad", [{"ids": []}, {"ids": [WORDS]}, {"ids": [-1]}, {"ids": [5] * 126, "new": 3}, {"new": 0}, {"new": -1}]
)
def test_a_request_that_cannot_run_fails_alone(settings, bad):
    with serving(settings, generate(1), generate(2, **bad), generate(3)) as channel:
        answered = replies(channel, 3)
    assert answered[2]["type"] == "urn:tandem:invalid-input"
    assert len(answered[1]["token_ids"]) == len(answered[3]["token_ids"]) == 3


def test_two_evaluation_checkpoints_are_held_and_more_still_work(settings, tmp_path):
    folders = [str(save_model(tmp_path / f"m{seed}", seed=seed)) for seed in (1, 2, 3)]
    requests = [generate(i, checkpoint=folder) for i, folder in enumerate([*folders, folders[0]], start=1)]
    with serving(settings, *requests, generate(5, checkpoint=str(tmp_path / "absent"))) as channel:
        answered = replies(channel, 5)
    assert answered[1]["token_ids"] == answered[4]["token_ids"]
    assert len({tuple(answered[i]["token_ids"]) for i in (1, 2, 3)}) == 3
    assert answered[5]["type"] == "urn:tandem:user-error"
    assert "absent" in answered[5]["detail"]
