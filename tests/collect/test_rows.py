"""Launches as rows keep them."""

from __future__ import annotations

from dataclasses import replace

from solkit.collect.rows import timed_launch, with_demands
from solkit.core import Access, Demand, KernelAnalysis, KernelModel, Launch, SharedAccess, Term
from solkit.datasets.record import TimedDemand, TimedLaunch
from solkit.roofline import devices

H100 = devices.find("h100-sxm")
DEMAND = Demand(
    accesses=(
        Access("load", "global", "x", "k.py:1", 4, 16, 16, 500, 512, 4),
        Access("load", "async", "y", "k.py:2", 2, 32, 32, 1024, 1024, 16),
        Access("store", "global", "z", "k.py:3", 3, 12, 12, 380, 384, 4),
        Access("atomic", "global", "n", "k.py:4", 1, 1, 1, 4, 32, 4),
    ),
    operations={"fp32": 256},
    l1_wavefronts=9,
    l2_read_bytes=1536,
    l2_write_bytes=416,
    dram_read_bytes=1500,
    dram_write_bytes=400,
    steps=2.5,
    shared=(SharedAccess("load", "k.py:2", 4, 16, 8), SharedAccess("store", "k.py:2", 4, 8, 8)),
    guesses=("This was guessed.",),
)
KERNEL = KernelAnalysis(
    Launch("k", (264, 1, 1), 4, 3, constants={"B": 64}, signature={"x": "*fp32"}, count=2),
    registers=32,
    spills=1,
    shared_bytes=1024,
    tensor_cores=False,
    demand=DEMAND,
    model=KernelModel(0.5, (Term("dram", 0.375, "said"), Term("launch", 0.125, "said"))),
)


def test_a_launch_with_its_demand():
    told = timed_launch(KERNEL, H100)
    assert (told.name, told.grid, told.count, told.spills) == ("k", (264, 1, 1), 2, 1)
    assert (told.occupancy, told.waves) == (1.0, 264 / (16 * 132))  # 16 blocks of 4 warps an SM
    assert told.demand == TimedDemand(
        load_requests=6, load_sectors=48, load_bytes=1524, copied_sectors=32,
        store_requests=3, store_sectors=12, store_bytes=380,
        atomic_requests=1, atomic_sectors=1, atomic_bytes=4,
        operations={"fp32": 256}, l1_wavefronts=9, l2_read_bytes=1536, l2_write_bytes=416,
        dram_read_bytes=1500, dram_write_bytes=400, steps=2.5,
        shared_wavefronts=24, shared_least_wavefronts=16, guesses=1,
        model_ms=0.5, terms={"dram": 0.375, "launch": 0.125},
    )  # fmt: skip


def test_what_is_not_known_of_a_launch():
    told = timed_launch(replace(KERNEL, demand=None, model=None, registers=None), H100)
    assert (told.demand, told.occupancy, told.waves) == (None, None, None)
    none_fits = timed_launch(
        replace(KERNEL, registers=255, launch=Launch("k", (1, 1, 1), 32, 1)), H100
    )
    assert (none_fits.occupancy, none_fits.registers) == (None, 255)


def test_demands_go_to_the_launches_that_were_compiled_alike():
    compiled = [
        TimedLaunch("k", (n, 1, 1), 4, constants={"B": 64}, demand=TimedDemand(load_bytes=n))
        for n in (1, 2)
    ]
    live = [TimedLaunch("k", (n, 1, 1), 4, constants={"B": 64}, registers=8) for n in (2, 3)]
    found = with_demands(live, compiled)
    assert found == (replace(live[0], demand=TimedDemand(load_bytes=2)), live[1])
