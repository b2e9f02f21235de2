"""The latency floor of dependent steps, by hand and by brute force."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solkit.core import Chain, Tolerance, Work
from solkit.roofline import devices
from solkit.roofline.bound import bound
from solkit.roofline.latency_floor import EXCHANGE_CYCLES, chain_floor_ms

H100 = devices.find("h100-sxm")
CYCLE_MS = 1e-3 / H100.clock_mhz
RATE = H100.ceilings["tensor.tf32"].value / H100.sm_count  # of one SM, a second


def floor_ms(steps, columns, operations):
    chain = Chain(steps, columns, {"contraction.fp32": operations}, "aten.mm")
    return chain_floor_ms(chain, H100, 1e3 * operations / H100.ceilings["tensor.tf32"].value)


def test_much_work_is_spread_and_waits_for_exchanges():
    assert floor_ms(500, 0, 10**12) == pytest.approx(500 * EXCHANGE_CYCLES * CYCLE_MS)


def test_little_work_is_done_by_one_sm_alone():
    operations = 500 * 2 * 32 * 32
    alone_ms = 1e3 * operations / RATE
    assert alone_ms < 500 * EXCHANGE_CYCLES * CYCLE_MS
    assert floor_ms(500, 0, operations) == pytest.approx(alone_ms)


def test_columns_share_exchanges_in_blocks_of_the_best_size():
    n = 8192

    def blocked_ms(size):
        return n / size * (EXCHANGE_CYCLES * CYCLE_MS + 1e3 * size**3 / 3 / RATE)

    best = min(blocked_ms(size) for size in range(1, 1000))
    slowest = max(best, n * 8 * CYCLE_MS)  # 8 cycles of dependent operations a column
    assert floor_ms(0, n, n**3 // 3) == pytest.approx(slowest, rel=0.01)
    assert floor_ms(0, n, n**3 // 3) < n * EXCHANGE_CYCLES * CYCLE_MS


def test_it_stands_apart_from_the_bound():
    work = Work({"contraction.fp32": 10**9}, {}, 1 << 20, 1 << 20, 0, 0)
    chain = Chain(1000, 0, {"contraction.fp32": 10**9}, "aten.mm")
    chained = bound(replace(work, chain=chain), H100, tolerance=Tolerance(1e-2, 1e-2))
    plain = bound(work, H100, tolerance=Tolerance(1e-2, 1e-2))
    assert chained.at.chain_floor_ms == pytest.approx(1000 * EXCHANGE_CYCLES * CYCLE_MS)
    assert plain.at.chain_floor_ms is None
    assert replace(chained.at, chain_floor_ms=None) == plain.at
    assert chained.time_ms == plain.time_ms


def test_exchanges_of_other_vendors_are_not_known():
    work = Work({}, {}, 1 << 20, 1 << 20, 0, 0, chain=Chain(100, 0, {}, "aten.mm"))
    assert bound(work, devices.find("mi300x")).at.chain_floor_ms is None
