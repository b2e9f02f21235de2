"""Causes of traffic, for accesses put together by hand: 132 blocks of one warp."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solkit.core import Access, Demand, Facts, KernelAnalysis, Launch
from solkit.report.remedies import advice_on
from solkit.roofline import devices
from solkit.roofline.kernel.launch_view import LaunchView
from solkit.roofline.kernel.naming import ProblemNeeds
from solkit.roofline.kernel.traffic_causes import between_launches, in_memory, narrowest

DEVICE = devices.find("h100-sxm")
BLOCKS = DEVICE.sm_count


def load(argument, vector_bytes, requests, requested_bytes, sectors):
    """A load of some bytes by a lane, in requests of a warp."""
    return Access(
        kind="load",
        path="global",
        argument=argument,
        line=f"{argument}.py:1",
        requests=requests,
        sectors=sectors,
        block_sectors=sectors,
        requested_bytes=requested_bytes,
        unique_bytes=requested_bytes,
        vector_bytes=vector_bytes,
    )


def cause(*loads, find=narrowest, signature=(("x", "*fp32"),), **loop):
    demand = Demand(
        accesses=loads,
        operations={},
        l1_wavefronts=0,
        l2_read_bytes=0,
        l2_write_bytes=0,
        dram_read_bytes=0,
        dram_write_bytes=0,
        **loop,
    )
    facts = Facts(Launch("kernel", (BLOCKS, 1, 1), 1, 1, signature=dict(signature)))
    view = LaunchView(KernelAnalysis(facts, demand=demand), DEVICE)
    return find(view, loads)


SCALAR = load("alpha", 2, BLOCKS, 2 * BLOCKS, BLOCKS)  # one element for all lanes
SHARED = load("scale", 4, BLOCKS, 128 * BLOCKS, BLOCKS)  # lanes that want the same element
WIDE = load("x", 16, BLOCKS, 512 * BLOCKS, 16 * BLOCKS)
BYTES = load("b", 2, BLOCKS, 64 * BLOCKS, 2 * BLOCKS)
SPLIT = load("c", 2, 8 * BLOCKS, 512 * BLOCKS, 16 * BLOCKS)


def in_l1(view, _):
    return in_memory(view, "l1")


def test_l1_is_filled_by_loads_of_one_element_for_all_lanes_not_by_the_few_narrow_atomics():
    counts = replace(load("counts", 4, 4 * BLOCKS, 512 * BLOCKS, 16 * BLOCKS), kind="atomic")
    # a histogram by comparison: 64 elements in 100 steps, each wanted by all lanes of 4 warps
    x = load("x", 4, 4 * 6400 * BLOCKS, 4 * 6400 * BLOCKS, 4 * 6400 * BLOCKS)
    x = replace(x, block_sectors=6400 * BLOCKS // 8)
    in_memory_cause = cause(x, counts, find=in_l1)
    assert (in_memory_cause.name, in_memory_cause.figures["place"]) == (
        "one element a request",
        "x.py:1",
    )
    assert "x[None, :]" in advice_on(in_memory_cause)
    assert cause(WIDE, counts, find=in_l1).figures["place"] == "counts.py:1"  # as many sectors


@pytest.mark.parametrize("loads", [(SCALAR,), (SHARED,), (SCALAR, WIDE)])
def test_what_lanes_share_is_not_narrow(loads):
    assert cause(*loads) is None


@pytest.mark.parametrize(("access", "says"), [(BYTES, "larger BLOCK"), (SPLIT, "tl.multiple_of")])
def test_lanes_without_more_elements_need_a_larger_block(access, says):
    text = advice_on(cause(access))
    assert text.startswith(f"{access.line}: this load moves 2 bytes a lane")
    assert says in text


def test_threads_of_cuda_can_take_more_elements():
    assert "float4" in advice_on(cause(BYTES, signature=()))


def test_requests_of_a_loop_that_is_not_known_may_be_split():
    loop = replace(BYTES, requests=3 * BLOCKS, requested_bytes=192 * BLOCKS, sectors=6 * BLOCKS)
    assert "tl.multiple_of" in advice_on(cause(loop))


def test_a_loop_with_one_request_each_time_behind_other_loads_has_no_more_elements():
    loop = replace(BYTES, requests=32 * BLOCKS, requested_bytes=32 * BYTES.requested_bytes)
    text = advice_on(cause(replace(loop, sectors=64 * BLOCKS), steps=33.0, iterations=32.0))
    assert "larger BLOCK or fewer warps" in text


TENSOR = 1 << 26  # bytes of each tensor


def launch_of(name, storages, count=1):
    """A launch that reads all of `x` and writes all of `y`, each of the storages told."""
    accesses = [
        replace(load(parameter, 16, TENSOR // 512, TENSOR, TENSOR // 32), kind=kind)
        for parameter, kind in (("x", "load"), ("y", "store"))
    ]
    launch = Launch(
        name,
        (BLOCKS, 1, 1),
        4,
        1,
        count=count,
        storages=storages,
    )
    demand = Demand(
        accesses=tuple(accesses),
        operations={},
        l1_wavefronts=0,
        l2_read_bytes=TENSOR,
        l2_write_bytes=TENSOR,
        dram_read_bytes=TENSOR,
        dram_write_bytes=TENSOR,
    )
    return KernelAnalysis(Facts(launch), demand=demand)


def cause_between(*launches):
    views = [LaunchView(launch, DEVICE, place) for place, launch in enumerate(launches)]
    return between_launches(views, ProblemNeeds(dram_bytes=2 * TENSOR))


@pytest.mark.parametrize(
    ("first", "second", "name", "read_as"),
    [
        ({"x": (0,), "y": (1,)}, {"x": (1,), "y": (2,)}, "hand-over", "x"),
        ({"x": (0,), "y": (1,)}, {"x": (0,), "y": (2,)}, "read by several launches", None),
        ({"x": (0,), "y": (1,)}, {"x": (2,), "y": (3,)}, None, None),
        ({}, {}, "hand-over", "x, to judge by its size"),
    ],
)
def test_a_launch_reads_what_another_wrote_where_they_share_a_storage(first, second, name, read_as):
    cause = cause_between(launch_of("first", first), launch_of("second", second))
    assert (cause and cause.name) == name
    if read_as is not None:
        assert cause.figures["read_as"] == read_as


@pytest.mark.parametrize(
    ("storages", "name"),
    [
        ({"x": (0, 1), "y": (1, 0)}, "hand-over of steps"),  # buffers that swap
        ({"x": (0,), "y": (0,)}, "hand-over of steps"),
        ({"x": (0, 1), "y": (0, 1)}, None),  # two tensors, each updated in place
        ({"x": (0, 1), "y": (2, 3)}, None),
    ],
)
def test_equal_launches_are_steps_where_one_reads_what_another_wrote(storages, name):
    cause = cause_between(launch_of("step", storages, count=2))
    assert (cause and cause.name) == name
