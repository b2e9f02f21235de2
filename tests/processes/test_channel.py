from __future__ import annotations

import os
import struct
import threading

import pytest

from solkit.processes.channel import Channel, ClosedError, NonsenseError, connected_pair


@pytest.fixture
def ends():
    """The trusted side's channel, the other side's, and the other side's bare socket."""
    ours, theirs = connected_pair()
    with ours, theirs:
        yield Channel(ours, trusting=False), Channel(theirs, trusting=True), theirs


def test_messages_bytes_and_files_go_out(ends):
    ours, theirs, _ = ends
    file = os.memfd_create("test")
    os.write(file, b"inside")
    ours.send({"a": [1, "ü"]}, b"\x00payload", (file,))
    frame = theirs.receive()
    assert (frame.header, frame.payload) == ({"a": [1, "ü"]}, b"\x00payload")
    (descriptor,) = frame.descriptors
    assert os.pread(descriptor, 6, 0) == b"inside"
    for item in (file, descriptor):
        os.close(item)


def test_large_frames(ends):
    ours, theirs, _ = ends
    payload = os.urandom(5 << 20)
    sender = threading.Thread(target=ours.send, args=({"n": 1}, payload))
    sender.start()
    assert theirs.receive(10).payload == payload
    sender.join()


def test_frames_keep_their_order(ends):
    ours, theirs, _ = ends
    for number in range(3):
        theirs.send({"n": number})
    assert [ours.receive(1).header["n"] for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("!II", 2, 1) + b"{}x",  # bytes behind the header
        struct.pack("!II", 1 << 31, 0),  # too long
        struct.pack("!II", 3, 0) + b"no!",
        struct.pack("!II", 2, 0) + b"[]",
    ],
)
def test_nonsense_from_the_side_that_is_not_trusted(ends, data):
    ours, _, theirs = ends
    theirs.sendall(data)
    with pytest.raises(NonsenseError):
        ours.receive(1)


def test_files_from_the_side_that_is_not_trusted_are_dropped(ends):
    ours, theirs, _ = ends
    theirs.send({}, b"", (0,))
    assert ours.receive(1).descriptors == ()


def test_an_end_that_is_gone(ends):
    ours, theirs, _ = ends
    theirs.close()
    with pytest.raises(ClosedError):
        ours.receive(1)
    with pytest.raises(ClosedError):
        ours.send({})


def test_a_frame_cut_off(ends):
    ours, _, theirs = ends
    theirs.sendall(struct.pack("!II", 100, 0) + b'{"a"')
    theirs.close()
    with pytest.raises(ClosedError):
        ours.receive(1)


def test_one_that_says_nothing_or_takes_nothing(ends):
    ours, _, _ = ends
    assert not ours.is_waiting(0.01)
    with pytest.raises(TimeoutError):
        ours.receive(0.05)
    with pytest.raises(TimeoutError):
        ours.send({}, bytes(64 << 20), timeout_s=0.2)
