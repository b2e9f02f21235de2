"""What caches absorb, of made-up regions whose traffic follows by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from solkit.analysis.common.l2_traffic import l1_misses
from solkit.analysis.common.regions import Region, unique_bytes
from solkit.analysis.common.reuse import reuse_of
from solkit.core import Occupancy
from solkit.roofline import devices
from solkit.roofline.kernel.dram_traffic import Traffic, dram_traffic

H100 = devices.find("h100-sxm")  # 132 SMs, 50 MiB of L2 in two partitions
L40S = devices.find("l40s")  # 96 MB in one
MB = 1 << 20
NEXT = 1 << 44  # the next storage


def rows(number, size, programs=132, **what):
    """Each program has a row of its own in a storage."""
    low = number * NEXT + np.arange(programs) * size
    fields = {"storage_bytes": size * programs, "once": float(size), **what}
    return Region(low, low + size, np.full(programs, float(size)), **fields)


def shared(number, size, programs=132, **what):
    """All programs have the same."""
    low = np.full(programs, number * NEXT)
    fields = {"storage_bytes": size, "once": float(size), **what}
    return Region(low, low + size, np.full(programs, float(size)), **fields)


def dram(*regions, resident=132, device=H100, **what):
    return dram_traffic(reuse_of(regions, resident, device, **what), device.l2_bytes)


def overflow(mean):
    """A set of 16 lines gets as many or more, where it gets some on average."""
    return 1 - sum(math.exp(-mean) * mean**n / math.factorial(n) for n in range(16))


def test_a_copy_moves_all_once():
    assert dram(rows(1, MB), rows(2, MB, kind="store")) == Traffic(132 * MB, 132 * MB)


def test_blocks_side_by_side_share_what_they_read():
    assert dram(shared(1, MB), rows(2, 1024)).read == MB + 132 * 1024


@pytest.mark.parametrize(("size", "again"), [(64 << 10, 0.0), (1 << 20, 1.0)])
def test_a_second_pass_finds_what_fits(size, again):
    once = 132 * size
    read = dram(rows(1, size, phase=1), rows(1, size, phase=3)).read
    assert read == pytest.approx((1 + again) * once, rel=0.01)


def test_around_the_capacity_sets_overflow_by_chance():
    # a row that one SM reads is at home on the other side as often as not: 1.5 copies
    size = 192 << 10
    once = 132 * size
    read = dram(rows(1, size, phase=1), rows(1, size, phase=3)).read
    gone = overflow(16 * 1.5 * once / H100.l2_bytes)
    assert 0.05 < gone < 0.95
    assert read == pytest.approx(once * (1 + gone))


def test_l2_of_one_partition_holds_lines_once():
    size = 192 << 10
    once = 132 * size
    gone = overflow(16 * once / L40S.l2_bytes)
    read = dram(rows(1, size, phase=1), rows(1, size, phase=3), device=L40S).read
    assert read == pytest.approx(once * (1 + gone))


def test_what_both_sides_read_takes_room_twice():
    # a second wave reads again what all of the first read; nothing else is used in between
    weights = shared(1, 20 * MB, programs=264)
    gone = overflow(16 * 2 * 20 * MB / H100.l2_bytes)
    assert dram(weights).read == pytest.approx(20 * MB * (1 + gone))


def test_written_bytes_take_room():
    passes = rows(1, 64 << 10, phase=1), rows(1, 64 << 10, phase=3)
    assert dram(*passes).read == pytest.approx(132 * (64 << 10), rel=0.01)
    crowded = dram(*passes, rows(2, MB, phase=2, kind="store"))
    assert crowded.read == pytest.approx(2 * 132 * (64 << 10), rel=0.02)


def test_in_place_is_written_back_once():
    assert dram(rows(1, MB), rows(1, MB, kind="store")) == Traffic(132 * MB, 132 * MB)


def test_what_a_block_has_just_written_is_read_from_l2():
    size = 64 << 10
    scratch = rows(1, size, kind="store"), rows(1, size)
    traffic = dram(*scratch)
    assert traffic.read < 1000 < traffic.written == 132 * size
    beyond = dram(rows(1, MB, kind="store"), rows(1, MB))  # 132 MB lie between the two
    assert beyond.read == pytest.approx(132 * MB, rel=0.01)


def test_what_is_written_in_part_or_after_it_is_read_comes_from_dram():
    size = 64 << 10
    in_part = dram(rows(1, size, kind="store", covered=0.5), rows(1, size))
    assert in_part.read >= 132 * size
    assert dram(rows(1, size), rows(1, size, kind="store")).read == 132 * size


def test_sectors_that_steps_come_back_to_are_lost_between_them():
    # each of 16 steps touches half a MB of a MB: 1.5 x 66 MB are used from one to the next
    back = {"moved": np.full(132, 8.0 * MB), "once": MB / 2}
    assert dram(rows(1, MB, **back)).read == pytest.approx(8 * 132 * MB, rel=0.01)
    small = {"moved": np.full(132, 8.0 * 4096), "once": 2048.0}
    assert dram(rows(1, 4096, **small)).read == pytest.approx(132 * 4096)


def test_a_loop_within_a_loop_comes_back_after_all_of_it():
    back = {"moved": np.full(132, 4.0 * MB)}
    assert misses(rows(1, MB, **{**back, "once": 0.0})) == pytest.approx([1.0])
    assert misses(rows(1, MB, **{**back, "once": 1024.0})) == pytest.approx([1 / 4])
    few = {"moved": np.full(132, 4.0 * 4096)}
    assert misses(rows(1, 4096, **{**few, "once": 0.0})) == pytest.approx([1 / 4])


def test_sectors_written_in_part_are_filled_before_they_are_written_back():
    back = {"moved": np.full(132, 8.0 * MB), "kind": "store"}
    whole, part = dram(rows(1, MB, **back)), dram(rows(1, MB, **back, covered=1 / 8))
    assert whole.read == 0
    assert whole.written == part.written == pytest.approx(8 * 132 * MB, rel=0.02)
    assert part.read == pytest.approx(7 * 132 * MB, rel=0.02)
    # and those that nobody completes, but for what L2 still holds at the end
    never = dram(rows(1, MB, kind="store", covered=1 / 8))
    assert never == Traffic(132 * MB - H100.l2_bytes, 132 * MB)


def test_sectors_are_fetched_in_pairs():
    apart = rows(1, MB, pairs=2.0)
    half = replace(apart, size=apart.size / 2)  # every second sector
    assert dram(half).read == 132 * MB
    assert dram(replace(half, kind="store")).written == 66 * MB


def gathering(programs, rows_of_table, drawn, seed=0):
    """Each program gathers 8 rows of 256 bytes; of these, where the first and the last lie."""
    places = np.random.default_rng(seed).choice(rows_of_table, (programs, 8), replace=drawn)
    low, high = NEXT + 256 * places.min(1), NEXT + 256 * (places.max(1) + 1)
    sizes = np.full(programs, 8 * 256.0)
    region = Region(low, high, sizes, 256 * rows_of_table, once=2048.0, gathered=True)
    return region, 256 * len(np.unique(places))


def test_a_gather_repeats_itself():
    region, distinct = gathering(4096, 32000, drawn=True)
    assert unique_bytes([region]) == pytest.approx(distinct, rel=0.02)
    assert dram(region).read == pytest.approx(distinct, rel=0.02)
    half = replace(region, low=region.low[:2048], high=region.high[:2048], size=region.size[:2048])
    assert dram(half, scale=2.0).read == pytest.approx(distinct, rel=0.02)


def test_a_permutation_does_not():
    region, distinct = gathering(1024, 8192, drawn=False)
    assert distinct == 8192 * 256
    apart = replace(region, low=region.low + np.arange(1024))  # no two alike, as a sort leaves them
    assert unique_bytes([apart]) == pytest.approx(distinct, rel=0.001)


def misses(*regions, together=1.0, blocks=2, shared_bytes=0):
    results = l1_misses(regions, together, shared_bytes, Occupancy(1.0, "", blocks, 1, 1), H100)
    return [result.moved for result in results]


def test_l1_has_what_its_blocks_read_before():
    assert misses(rows(1, 1 << 14, phase=1), rows(1, 1 << 14, phase=3)) == pytest.approx([1, 0])
    assert misses(rows(1, MB, phase=1), rows(1, MB, phase=3)) == pytest.approx([1, 1])


def test_blocks_of_one_sm_share_l1():
    # two blocks side by side, and two more after them
    assert misses(shared(1, 4096, programs=528)) == pytest.approx([1 / 4])
    assert misses(shared(1, 4 * MB, programs=528)) == pytest.approx([1 / 2])


def test_shared_memory_takes_from_l1():
    passes = rows(1, 1 << 16, phase=1), rows(1, 1 << 16, phase=3)
    assert misses(*passes, blocks=1)[1] == pytest.approx(0, abs=0.01)
    assert misses(*passes, blocks=1, shared_bytes=227 << 10)[1] > 0.9


@pytest.mark.parametrize("moves", [1, 2, 16])
def test_a_pass_in_steps_of_less_than_a_sector_asks_dram_for_each_sector_once(moves):
    # L1 serves a sector's other steps; at the next pass of a MB a block it holds none of it
    what = {"moved": np.full(132, moves * float(MB)), "once": 2048.0}
    passes = rows(1, MB, phase=1, **what), rows(1, MB, phase=3, **what)
    results = l1_misses(passes, 1.0, 0, Occupancy(1.0, "", 1, 1, 1), H100)
    assert [result.moved for result in results] == pytest.approx([1 / moves] * 2, rel=0.01)
    assert [result.first for result in results] == pytest.approx([1.0, 1.0], rel=0.01)
    read = dram(*passes, past_l1=[result.first for result in results]).read
    assert read == pytest.approx(2 * 132 * MB, rel=0.01)


def test_streams_name_the_argument_behind_them():
    reuse = reuse_of(
        [rows(1, MB, argument="x"), rows(2, MB, kind="store", argument="y")], 132, H100
    )
    assert [item.argument for item in (*reuse.reads, *reuse.writes)] == ["x", "y"]
