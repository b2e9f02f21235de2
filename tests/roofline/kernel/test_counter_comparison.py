"""Modelled figures beside counted ones."""

from dataclasses import replace

import pytest

from solkit.core import Access, Counters, Demand, Facts, KernelAnalysis, Launch, Occupancy
from solkit.roofline.kernel.counter_comparison import compared, requested_sectors


def access(kind, path, n):
    return Access(kind, path, "x", "k.py:1", n // 16, n, n, 32 * n, 32 * n, 16)


DEMAND = Demand(
    accesses=(
        access("load", "global", 1000), access("load", "global", 24), access("load", "async", 512),
        access("load", "tma", 64), access("store", "global", 2048), access("atomic", "global", 7),
        access("store", "tma", 5), access("atomic", "tma", 6),
    ),
    operations={"tensor.bf16": 1 << 30, "fp32": 4096},
    l1_wavefronts=0, l2_read_bytes=1 << 20, l2_write_bytes=1 << 16,
    dram_read_bytes=1 << 20, dram_write_bytes=1 << 16,
)  # fmt: skip
COUNTERS = Counters(
    "k", (64, 1, 1), load_sectors=1024, async_sectors=512, store_sectors=2048, atomic_sectors=7,
    tma_read_sectors=64, tma_write_sectors=11, l2_read_bytes=1 << 20, dram_read_bytes=1 << 20,
    dram_write_bytes=0, operations={"tensor.bf16": 1 << 30, "fp32": 4096}, occupancy=0.5,
    waves=0.24,
)  # fmt: skip
KERNEL = KernelAnalysis(
    Facts(Launch("k", (64, 1, 1), 4, 3)),
    occupancy=Occupancy(0.5, "registers", 2, 0.2424, 0.2424),
    demand=DEMAND,
    counters=COUNTERS,
)


def compared_by_name(**counters):
    kernel = replace(KERNEL, counters=replace(COUNTERS, **counters))
    return {item.name: item for item in compared(kernel)}


def test_sectors_by_kind():
    assert requested_sectors(DEMAND) == {
        "loads": 1024, "async copies": 512, "stores": 2048, "atomics": 7, "TMA loads": 64,
        "TMA stores": 11,
    }  # fmt: skip


def test_figures_that_agree():
    figures = compared_by_name()
    assert not any(figure.disagrees for figure in figures.values())
    assert figures["loads"].ratio == figures["DRAM reads"].ratio == 1.0
    assert (figures["waves"].modelled, figures["waves"].counted) == (0.2424, 0.24)
    assert figures["tensor.bf16"].unit == "FLOP"


def test_what_was_not_counted_is_not_compared():
    assert "L2 writes" not in compared_by_name()
    assert compared(replace(KERNEL, counters=None)) == ()
    bare = compared(replace(KERNEL, demand=None))
    assert [item.name for item in bare] == ["occupancy", "waves"]


@pytest.mark.parametrize(("counted", "disagrees"), [(1250, False), (1300, True), (850, True)])
def test_a_fifth_apart(counted, disagrees):
    assert compared_by_name(load_sectors=counted)["loads"].disagrees is disagrees


def test_little_of_much_is_no_disagreement():
    assert not compared_by_name(atomic_sectors=14)["atomics"].disagrees


def test_writes_that_l2_keeps_are_no_disagreement():
    assert compared_by_name()["DRAM writes"].modelled == 1 << 16
    assert not compared_by_name()["DRAM writes"].disagrees


def test_counted_where_nothing_was_expected():
    figures = compared_by_name(operations={"tensor.int8": 1 << 30})
    assert figures["tensor.int8"].disagrees
    assert figures["tensor.int8"].ratio == 0.0
    assert compared_by_name(load_sectors=0)["loads"].ratio == float("inf")
