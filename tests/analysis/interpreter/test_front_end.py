"""A third language gets loops, counts of accesses and sampled programs from the core alone."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from solkit.adapters.launch_recording import TensorArgument
from solkit.analysis.interpreter.launch_requests import launch_requests
from solkit.analysis.interpreter.thread_groups import Grid
from solkit.core import Occupancy
from solkit.roofline import devices

SPEC = importlib.util.spec_from_file_location(
    "toy_language", Path(__file__).with_name("toy_language.py")
)
toy_language = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(toy_language)

OCCUPANCY = Occupancy(1.0, "warps", 16, 1.0, 1.0)
WALK = """
    index i
    add i2 i i
    add i4 i2 i2
    add at x i4
    add k 0 0
again:
    load at
    add at at stride
    add k k 1
    less p k rounds
    jump again p
    add to out i4
    store to
"""


def tensor(number, size_bytes, contents=None):
    return TensorArgument(number, size_bytes, 0, (size_bytes // 4,), (1,), 4, contents=contents)


def requested(kernel, blocks, threads=128):
    grid = Grid((blocks, 1, 1), (threads, 1, 1))
    return launch_requests(kernel, 0, grid, devices.find("h100"), OCCUPANCY)


def access(requests, kind):
    (only,) = (a for a in requests.accesses if a.kind == kind)
    return only


def walk(blocks, stride, rounds, threads=128):
    sizes = blocks * threads * 4 + stride * rounds, blocks * threads * 4
    return toy_language.Toy(
        WALK, x=tensor(0, sizes[0]), out=tensor(1, sizes[1]), stride=stride, rounds=rounds
    )


def test_a_loop_is_extrapolated_and_its_accesses_are_all_counted():
    kernel = walk(blocks=8, stride=4096, rounds=1000)
    requests = requested(kernel, blocks=8)
    load, store = access(requests, "load"), access(requests, "store")
    # 8 blocks of 4 warps, each 1000 times: 128 bytes in 4 sectors
    assert (load.requests, load.sectors) == (32_000, 128_000)
    assert (load.argument, load.line) == ("x", "toy:7")
    assert load.unique_bytes == 8 * 512 * 1000  # a round touches 4096 bytes, which are all new
    assert (store.requests, store.sectors, store.unique_bytes) == (32, 128, 4096)
    assert requests.operations == {"fp32": 8 * 128 * (5 + 2 * 1000)}
    assert requests.steps == 1000
    assert kernel.computed < 100  # of 3004 that one block's code runs
    assert not requests.guesses


def test_misaligned_steps_count_as_many_sectors_as_each_round_touches():
    kernel = walk(blocks=3, stride=4100, rounds=777)
    # by hand: each warp's 128 bytes from every place where a round puts them
    starts = np.arange(3 * 4)[:, None] * 128 + np.arange(777) * 4100
    sectors = int(((starts + 127) // 32 - starts // 32 + 1).sum())
    load = access(requested(kernel, blocks=3), "load")
    assert (load.requests, load.sectors) == (3 * 4 * 777, sectors)
    assert kernel.computed < 1000


def test_programs_of_a_large_launch_are_sampled():
    requests = requested(walk(blocks=100_000, stride=4096, rounds=4), blocks=100_000)
    assert requests.programs_sampled <= 16
    load = access(requests, "load")
    assert (load.requests, load.sectors) == (100_000 * 4 * 4, 100_000 * 4 * 4 * 4)


def test_threads_that_diverge_meet_again():
    text = """
        index i
        add i2 i i
        add i4 i2 i2
        less p i n
        jump end !p
        add from x i4
        load from
    end:
        add to out i4
        store to
    """
    size = 4 * 64 * 4
    kernel = toy_language.Toy(text, x=tensor(0, size), out=tensor(1, size), n=80)
    requests = requested(kernel, blocks=4, threads=64)
    # of 8 warps the first two load, and half of the third
    assert (access(requests, "load").requests, access(requests, "load").sectors) == (3, 10)
    assert access(requests, "store").sectors == 8 * 4


@pytest.mark.parametrize("is_known", [True, False])
def test_loaded_numbers_lead_to_places_if_the_contents_are_known(is_known):
    text = """
        index i
        add i2 i i
        add i4 i2 i2
        add at rows i4
        load row at
        add from x row
        load from
    """
    contents = np.arange(32, dtype=np.int32) * 4096 if is_known else None
    rows = tensor(0, 128, contents)
    kernel = toy_language.Toy(text, rows=rows, x=tensor(1, 4096 * 32))
    requests = requested(kernel, blocks=1, threads=32)
    gathered = next(a for a in requests.accesses if a.argument == "x")
    # known: each lane in a sector of its own; unknown: taken to be in order, so in one
    assert gathered.sectors == (32 if is_known else 1)
    assert bool(requests.guesses) is not is_known
