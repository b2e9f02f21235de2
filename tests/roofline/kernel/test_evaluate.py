"""What follows from a launch's facts on a device."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from solkit.core import Facts, Launch, Requests, Reuse, Stream
from solkit.roofline import devices
from solkit.roofline.kernel.dram_traffic import Traffic, dram_traffic, lost_share
from solkit.roofline.kernel.evaluate import described
from solkit.roofline.kernel.occupancy import occupancy

H100 = devices.find("h100-sxm")
MB = 1 << 20
AGAIN = Stream(100 * MB, (MB, 50 * MB, 900 * MB), (7 * MB, 16 * MB, 9 * MB))
FACTS = Facts(
    Launch("k", (1320, 1, 1), 4, 3),
    registers=64,
    spills=0,
    shared_bytes=32 << 10,
    requests=Requests(
        accesses=(), operations={"fp32": 10**9}, l1_wavefronts=0, l2_read_bytes=10**9,
        l2_write_bytes=0, steps=4.0, reuse=Reuse((AGAIN,), (Stream(10 * MB),)),
    ),
)  # fmt: skip


def overflow(mean):
    """A set of 16 lines gets as many or more, where it gets some on average."""
    return 1 - sum(math.exp(-mean) * mean**n / math.factorial(n) for n in range(16))


def test_a_set_overflows_by_chance():
    assert lost_share([0.0, 25 * MB, 50 * MB, math.inf], 50 * MB) == pytest.approx(
        [0.0, overflow(8), overflow(16), 1.0]
    )


def test_bytes_cross_again_where_l2_has_lost_them():
    result = dram_traffic(Reuse((AGAIN,), (Stream(10 * MB),)), 50 * MB)
    assert result.read == pytest.approx((100 + 16 * overflow(16) + 9) * MB)
    assert result.written == 10 * MB
    # of a GiB it loses next to nothing but the farthest
    assert dram_traffic(Reuse((AGAIN,)), 1024 * MB).read == pytest.approx(
        (100 + 9 * overflow(16 * 900 / 1024)) * MB, rel=1e-6
    )


def test_further_blocks_touch_no_more_than_there_is():
    # what was followed read 40 MB of distinct bytes 1.5 times over; there are 60 MB in all
    stream = Stream(100 * MB, (900 * MB,), (50 * MB,), 40 * MB, (20 * MB,), 40 * MB, 60 * MB)
    assert dram_traffic(Reuse((stream,)), 50 * MB).read == 1.5 * 60 * MB
    # an L2 that loses nothing: once
    assert dram_traffic(Reuse((stream,)), 10**12).read == 60 * MB
    endless = replace(stream, most_bytes=10**12)
    assert dram_traffic(Reuse((endless,)), 50 * MB).read == 150 * MB


def test_sectors_written_in_part_are_completed_but_for_what_l2_holds():
    assert dram_traffic(Reuse(partial_bytes=(80 * MB, 20 * MB)), 50 * MB) == Traffic(30 * MB, 0)


def test_facts_become_a_time_on_a_device():
    result = described(FACTS, H100, compile_s=0.5)
    assert result.occupancy == occupancy(H100, 64, 32 << 10, 4, 1320)
    assert (result.facts, result.compile_s, result.error) == (FACTS, 0.5, None)
    dram = dram_traffic(FACTS.requests.reuse, H100.l2_bytes)
    assert result.demand.dram_read_bytes == round(dram.read)
    assert result.demand.dram_write_bytes == round(dram.written)
    assert result.demand.steps == 4.0
    moving = {term.name: term.time_ms for term in result.model.terms}["dram"]
    assert moving == pytest.approx((dram.read + dram.written) / (0.92 * 3.352e12) * 1e3, rel=1e-3)


def test_what_is_not_known_is_left_out():
    unread = described(replace(FACTS, requests=None), H100)
    assert unread.occupancy is not None
    assert (unread.demand, unread.model) == (None, None)
    broken = described(replace(FACTS, error="too big"), H100)
    assert (broken.error, broken.occupancy, broken.model) == ("too big", None, None)
    huge = described(replace(FACTS, registers=255, launch=Launch("k", (1, 1, 1), 32, 1)), H100)
    assert huge.error.startswith("not one block fits")
    assert huge.model is None
