import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.policy.channel import Channel
from shared.policy.framing import Decoder, encode

MESSAGES = [{"id": 1, "method": "generate", "arguments": {"ids": list(range(50))}}, {"cancel": 1}, {"text": "é\x00"}]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_messages_survive_any_cutting_of_the_stream(sizes):
    data = b"".join(map(encode, MESSAGES))
    decoder, received, position = Decoder(), [], 0
    for size in [*sizes, len(data)]:
        received += decoder.feed(data[position : position + size])
        position += size
    assert received == MESSAGES


def test_what_is_no_stream_of_frames_is_refused():
    with pytest.raises(ValueError, match="no stream of frames"):
        Decoder().feed(b"Traceback (most recent call last)")


def test_a_frame_holds_no_nan():
    with pytest.raises(ValueError, match="Out of range"):
        encode({"loss": float("nan")})


def test_receive_takes_all_that_is_there_and_waits_no_longer():
    read, write = os.pipe()
    channel = Channel(read, write)
    assert channel.receive(0.0) == []
    channel.send(*MESSAGES)
    assert channel.receive() == MESSAGES
    assert channel.receive(0.0) == []
    os.close(write)
    with pytest.raises(EOFError):
        channel.receive()
    os.close(read)
