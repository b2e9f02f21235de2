"""What kernels ask for, held against Triton's interpreter and against counts by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("followed.py")
SPEC = importlib.util.spec_from_file_location("followed", SOURCE)
followed = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(followed)


@pytest.fixture(scope="module")
def counted(interpreted):
    """Bytes that each case asks for, counted as it runs on the CPU."""
    return interpreted(SOURCE.parent, "followed:interpreted")


def requested_bytes(demand, kind):
    return sum(a.requested_bytes for a in demand.accesses if a.kind == kind)


@pytest.mark.quick("strides_of_the_grid", "product", "stencil", "triangle")
@pytest.mark.parametrize("name", followed.CASES)
def test_bytes_asked_for_are_those_that_the_interpreter_sees(name, launched, counted):
    demand = launched(followed.CASES[name]).demand
    for kind, expected in counted[name].items():
        # programs that were not followed lane by lane are scaled: within 2 %
        assert requested_bytes(demand, kind) == pytest.approx(expected, rel=0.02), kind
    assert not any(access.outside_bytes for access in demand.accesses)


def test_while_loops_of_many_iterations_are_counted_to_their_end(launched):
    # 7 programs, 5,000 iterations each; the last program's last tile has 100 of 512 elements
    n = 7 * 512 * 5000 - 412
    assert requested_bytes(launched(followed.strides_of_the_grid, n=n).demand, "load") == 4 * n


def test_the_end_of_a_while_loop_that_is_computed_is_where_it_is_first(launched):
    """Two thousand million iterations on, the product that decides is small again in 32 bits."""
    n = 512 * 35_000 + 100
    assert requested_bytes(launched(followed.whole_tiles, n=n).demand, "load") == 4 * 512 * 35_000


def test_while_loops_that_end_where_two_numbers_meet_are_counted_to_their_end(launched):
    # 7 programs, 4,000 iterations each
    demand = launched(followed.until_equal, blocks=7 * 4000).demand
    assert requested_bytes(demand, "load") == 4 * 256 * 7 * 4000
    assert (
        requested_bytes(launched(followed.down_to, blocks=3000).demand, "store") == 4 * 256 * 3000
    )


@pytest.mark.parametrize("sizes", [(128 * 900, 128 * 4000 - 50), (128 * 4000, 128 * 900 - 50)])
def test_while_loops_that_go_on_for_either_of_two_reasons_are_counted_to_their_end(launched, sizes):
    demand = launched(followed.merged, m=sizes[0], n=sizes[1]).demand
    assert requested_bytes(demand, "load") == 4 * sum(sizes)
    assert requested_bytes(demand, "store") == 4 * 128 * 4000


@pytest.mark.parametrize("columns", [10_240, pytest.param(10_000, marks=pytest.mark.slow)])
def test_nested_while_loops_are_counted_to_their_ends(launched, columns):
    # 3 programs share 4,000 rows of 79 or 80 tiles; 10,000 columns begin anywhere in a line
    demand = launched(followed.rows_by_hand, rows=4000, columns=columns).demand
    for kind in ("load", "store"):
        assert requested_bytes(demand, kind) == pytest.approx(4 * 4000 * columns, rel=1e-3)
    rows, tiles = 4000 / 3, -(-columns // 128)
    assert demand.iterations_by_depth == pytest.approx((rows, rows * tiles), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("device", ["mi300x", "mi355x"])
@pytest.mark.parametrize("name", followed.CASES)
def test_waves_of_64_threads_ask_for_the_same_bytes(name, device, launched, counted):
    demand = launched(followed.CASES[name], device).demand
    for kind, expected in counted[name].items():
        assert requested_bytes(demand, kind) == pytest.approx(expected, rel=0.02), kind


def test_a_coalesced_copy_by_waves(launched):
    kernel = launched(followed.copy, "mi300x", n=8192)
    for item in (access(kernel), access(kernel, "store", "out")):
        # 4 floats a lane, of 64: 1 KiB a request, in 32 sectors of 8 lines
        assert (item.vector_bytes, item.requests, item.sectors) == (16, 32, 1024)
        assert (item.unique_bytes, item.efficiency) == (32768, 1.0)
    assert kernel.demand.l1_wavefronts == 2 * 32 * 8
    assert kernel.facts.scalar_registers > 0
    assert (kernel.facts.accumulation_registers, kernel.facts.scratch_bytes) == (0, 0)
    assert kernel.occupancy.fraction == 1.0


def access(kernel, kind="load", argument="x"):
    selected_accesses = [
        a for a in kernel.demand.accesses if (a.kind, a.argument) == (kind, argument)
    ]
    assert len(selected_accesses) == 1, kernel.demand.accesses
    return selected_accesses[0]


def test_a_coalesced_copy(launched):
    kernel = launched(followed.copy, n=8192)
    for item in (access(kernel), access(kernel, "store", "out")):
        # 4 floats a lane: 512 bytes a request, in 16 sectors of 4 lines
        assert (item.vector_bytes, item.requests, item.sectors) == (16, 64, 1024)
        assert (item.unique_bytes, item.efficiency) == (32768, 1.0)
    assert kernel.demand.l1_wavefronts == 2 * 64 * 4
    assert kernel.demand.l2_read_bytes == kernel.demand.dram_read_bytes == 32768
    assert kernel.demand.dram_write_bytes == 32768


@pytest.mark.slow
def test_a_copy_that_cannot_be_vectorised(launched):
    # n is no multiple of 16, so a mask may end within a lane's four floats: each is a request of
    # its own, in which lanes are 16 bytes apart. Each touches all 16 sectors, and L1 has the rest.
    kernel = launched(followed.copy, n=8191)
    load = access(kernel)
    assert (load.vector_bytes, load.requests, load.sectors) == (4, 256, 256 * 16)
    assert kernel.demand.l2_read_bytes == 32768
    assert load.unique_bytes == 8191 * 4  # as much as there is
    # one float further, every fourth request ends in a seventeenth; the very last lane is masked
    shifted = access(launched(followed.copy, n=8191, offset=1))
    assert (shifted.requests, shifted.sectors) == (256, 256 * 16 + 64 - 1)


@pytest.mark.slow
@pytest.mark.parametrize("n", [4096, 8192 * 1024])  # of the larger grid not all is followed
def test_loads_past_the_end_of_a_tensor_are_seen(launched, n):
    # the last element lies at 2 (n - 1)
    assert access(launched(followed.strided_short, n=n, x=2 * n - 1)).outside_bytes == 0
    assert access(launched(followed.strided_short, n=n, x=2 * n - 2)).outside_bytes == 4
    assert access(launched(followed.strided_short, n=n, x=2 * n - 3)).outside_bytes == 8
    view = launched(followed.strided_short, n=n, x=2 * n - 2, behind=1)
    assert access(view).outside_bytes == 0  # of a larger storage


@pytest.mark.slow
def test_loads_before_the_start_of_a_tensor_are_seen(launched):
    before = launched(followed.shifted, by=-3)
    assert (access(before).outside_bytes, access(before, "store", "out").outside_bytes) == (12, 0)
    assert access(launched(followed.shifted, by=-3, offset=3)).outside_bytes == 0
    assert access(launched(followed.shifted, by=2)).outside_bytes == 8


def test_a_mask_that_is_reduced_is_compared_with_places_outside(launched):
    assert access(launched(followed.any_row, n=3000)).outside_bytes == 0


def test_places_that_data_decide_are_not_said_to_be_outside(launched):
    assert access(launched(followed.gather, rows=64, D=256, table=5)).outside_bytes == 0


def test_lanes_far_apart_touch_a_sector_each(launched):
    kernel = launched(followed.strided, n=4096, stride=8)
    load = access(kernel)
    assert load.sectors == 4096
    assert load.efficiency == 4 / 32
    assert load.unique_bytes == 4096 * 32
    assert access(kernel, "store", "out").efficiency == 1.0
    # a lane has 4 elements that are stored as one, so lanes are 128 bytes apart: a line each
    assert kernel.demand.l1_wavefronts == 128 * 32 + 32 * 4


def test_a_loop_that_only_waits_for_other_programs_is_no_loop_to_its_count(launched):
    kernel = launched(followed.waiting, blocks=100)
    assert 2 * 100 <= sum(a.contention.operations for a in kernel.demand.accesses) <= 3 * 100


def test_parts_of_tuples_are_arguments(launched):
    kernel = launched(followed.strided_by_tuple, n=4096)
    load, store = access(kernel, "load", "tensors[0]"), access(kernel, "store", "tensors[1]")
    assert (load.sectors, store.sectors) == (4096, 4096 * 4 / 32)


def test_a_gather_knows_its_indices(launched):
    kernel = launched(followed.gather, rows=64, D=256)
    load = access(kernel)
    assert load.requested_bytes == 64 * 1024
    assert load.unique_bytes == pytest.approx(11 * 1024, rel=0.01)  # of 11 different rows
    index = access(kernel, argument="rows")
    assert (index.requests, index.requested_bytes) == (64 * 4, 64 * 8)  # each of 4 warps loads it
    assert kernel.demand.dram_read_bytes == pytest.approx(11 * 1024 + 64 * 8, rel=0.01)


@pytest.mark.slow
def test_a_product_reads_its_inputs_once_a_tile(launched):
    kernel = launched(followed.product, M=512, N=256, K=320, tiles=(128, 64, 32))
    demand = kernel.demand
    assert demand.operations["tensor.fp16"] == 2 * 512 * 256 * 320
    by_argument = {}
    for access in demand.accesses:
        by_argument[access.argument] = by_argument.get(access.argument, 0) + access.requested_bytes
    assert by_argument == {
        "a": 512 * 320 * 2 * 4,  # 4 columns of tiles
        "b": 320 * 256 * 2 * 4,  # 4 rows
        "c": 512 * 256 * 2,
    }
    # 16 blocks are one wave: DRAM delivers each input once
    assert demand.dram_read_bytes == pytest.approx((512 + 256) * 320 * 2, rel=0.01)
    assert demand.l2_read_bytes == by_argument["a"] + by_argument["b"]


@pytest.mark.slow
def test_waves_read_again_what_l2_could_not_keep(launched):
    # 64 rows of tiles, of which the last dimension is walked first: a wave of 132 blocks spans
    # all rows of a (128 MiB of them), which a 50 MB L2 does not keep until the next wave
    large = {"M": 8192, "N": 2048, "K": 8192, "tiles": (128, 128, 64)}
    demand = launched(followed.product, **large).demand
    blocks, at_once = 64 * 16, 132 * demand_blocks(launched, large)
    waves = -(-blocks // at_once)
    a, b = 8192 * 8192 * 2, 8192 * 2048 * 2
    assert demand.dram_read_bytes >= a * (waves - 1)
    assert demand.dram_read_bytes <= (a + b) * waves


def demand_blocks(launched, sizes):
    return launched(followed.product, **sizes).occupancy.blocks_per_sm


def test_what_fits_in_l2_is_read_once(launched):
    small = {"M": 4096, "N": 1024, "K": 1024, "tiles": (64, 64, 64)}
    demand = launched(followed.product, **small).demand
    assert demand.dram_read_bytes == pytest.approx((4096 + 1024) * 1024 * 2, rel=0.02)


def test_blocks_of_different_length(launched):
    demand = launched(followed.triangle, n=640, block=64).demand
    lengths = [row // 64 + 1 for row in range(640)]
    assert demand.steps == pytest.approx(sum(lengths) / 640)
    assert demand.imbalance == pytest.approx(10 / 5.5)
    # each block takes the SM that has least so far
    busy = [0] * 132
    for length in lengths:
        busy[busy.index(min(busy))] += length
    assert demand.unevenness == pytest.approx(max(busy) / (sum(busy) / 132))


def test_uncoalesced_reads_share_sectors_between_blocks(launched):
    # a column of 256 rows, 160 bytes apart: a sector each; 8 columns share it
    kernel = launched(followed.transposing, M=256, N=40)
    load = access(kernel)
    assert load.sectors == 256 * 40
    assert load.efficiency == 4 / 32
    assert kernel.demand.dram_read_bytes == pytest.approx(256 * 160, rel=0.02)


@pytest.mark.slow
def test_a_loop_that_is_too_long_to_follow_is_scaled_and_said(launched):
    kernel = launched(followed.winding)
    assert any("followed for 512 iterations only" in guess for guess in kernel.demand.guesses)
    assert access(kernel).unique_bytes == pytest.approx(20_000 * 4, rel=0.01)


def test_lines_name_the_source(launched):
    kernel = launched(followed.copy)
    lines = SOURCE.read_text().splitlines()
    file, _, number = access(kernel).line.partition(":")
    assert file == "followed.py"
    assert "tl.load(x + at, at < n)" in lines[int(number) - 1]


def test_loads_of_one_step_share_what_l1_holds(launched):
    # at - 1 and at + 1 of 512 floats lie in the same sectors, but for one at either end
    demand = launched(followed.stencil, n=512 * 64).demand
    assert demand.l2_read_bytes == pytest.approx(512 * 64 * 4 * (1 + 2 / 64), rel=0.02)
    assert demand.dram_read_bytes == pytest.approx(512 * 64 * 4, rel=0.01)


def test_what_the_second_axis_decides_is_seen_though_the_first_is_long(launched):
    demand = launched(followed.second_axis, blocks=4096, rows=8).demand
    of_row = 4096 * 32 * 4
    # the first 4,096 programs are those of one row, which load once each
    assert requested_bytes(demand, "load") == pytest.approx(36 * of_row, rel=0.02)
    assert requested_bytes(demand, "store") == 8 * of_row
    assert demand.steps == pytest.approx(4.5, rel=0.02)


def test_what_an_atomic_gives_back_is_guessed_and_said(launched):
    demand = launched(followed.last_one_adds).demand
    (only,) = demand.guesses
    assert "programs are assumed to get a counter's numbers in turn" in only
    parts = [a for a in demand.accesses if (a.kind, a.argument) == ("load", "parts")]
    assert [a.requested_bytes for a in parts] == [4 * 256]  # by one program alone


def test_indices_that_the_pipeline_copies_are_known(launched):
    demand = launched(followed.pipelined_gather).demand
    assert not any("not known" in guess for guess in demand.guesses)
    # 128 rows, no two alike, of 64 floats: whole sectors, each once
    assert sum(a.requested_bytes for a in demand.accesses if a.argument == "x") == 128 * 64 * 4
    assert demand.dram_read_bytes == pytest.approx(128 * (64 * 4 + 8), rel=0.02)


def test_rows_that_a_sum_picks_are_known(launched):
    # the sum keeps all 8 of a part, where masks keep the corners; the last three are masked
    load = access(launched(followed.picked_rows))
    assert load.requested_bytes == 8 * 13 * 64 * 4
    assert load.outside_bytes == 0


def test_places_of_unknown_floats_are_scattered_over_their_tensor(launched):
    demand = launched(followed.sampled).demand
    assert demand.guesses
    assert all("unknown floats" in guess for guess in demand.guesses)
    load = next(a for a in demand.accesses if a.argument == "image")
    assert load.sectors == 64 * 16 * 32 * 4 // 32  # a row of channels is 128 bytes in a row
    assert 500 * 128 < load.unique_bytes <= 64 * 16 * 128  # of 10,000 places few come twice


def test_tiles_that_one_number_names_are_distinct_by_their_ends(launched):
    # tiles 0, 1, 0, 1 of 16 rows of 512 floats: two of them, each read whole by a loop whose first
    # steps the pipeline makes before it; and 16 rows that all programs read
    demand = launched(followed.named_tiles).demand
    assert demand.dram_read_bytes == pytest.approx((2 + 1) * 16 * 512 * 4, rel=0.02)


@pytest.mark.quick("b200-tensor.fp8")
@pytest.mark.parametrize(("device", "pipe"), [("h100", "tensor.bf16"), ("b200", "tensor.fp8")])
def test_products_with_scales(launched, device, pipe):
    # Hopper has no such product: Triton scales the operands and multiplies them in bf16
    operations = launched(followed.scaled, device=device, K=256).demand.operations
    assert operations[pipe] == 2 * 128 * 128 * 256


def test_special_functions_of_libdevice_and_of_inline_assembly_are_counted(launched):
    operations = launched(followed.special, n=8192).demand.operations
    assert operations == {"fp32": 8192, "sfu": 2 * 8192}  # ex2 and tanh; the product


@pytest.mark.parametrize(
    ("device", "tiles", "times"),
    [
        # umma_throughput, BF16, SS, one SM, of 8192 operations a clock: 4026, 5399, 8114
        ("b200", (64, 64, 64), 8192 / 4026),
        ("b200", (128, 64, 64), 8192 / 5399),
        ("b200", (128, 128, 64), 8192 / 8114),
        ("h100", (64, 64, 64), 1),
    ],
)
def test_small_tiles_of_tcgen05_take_longer(launched, device, tiles, times):
    kernel = launched(followed.product, device=device, M=128, N=128, K=128, tiles=tiles)
    operations = kernel.demand.operations["tensor.fp16"]
    assert operations / (2 * 128**3) == pytest.approx(times, rel=0.02)


def test_a_tensor_that_is_reshaped_is_known(launched):
    kernel = launched(followed.reshaped)
    assert kernel.demand.guesses == ()
    assert {a.argument for a in kernel.demand.accesses} == {"x", "out"}
    assert access(kernel).unique_bytes == 4096  # the same for all four programs


def test_programs_whose_masks_tip_at_different_iterations_are_each_extrapolated(launched):
    demand = launched(followed.window, n=1 << 16, width=512).demand
    assert demand.guesses == ()  # 1,024 iterations of each of 1,024 programs, few of them run
    elements = sum(min(first + 1, 512) for first in range(0, 1 << 16, 64))
    assert requested_bytes(demand, "load") == pytest.approx(4 * elements, rel=0.01)


def test_copies_write_to_shared_memory_what_they_read(launched):
    kernel = launched(followed.product, M=128, N=128, K=256)
    asked_for = sum(a.requests for a in kernel.demand.accesses if a.path == "async")
    copied = [a for a in kernel.demand.shared if a.kind == "copy"]
    # of 8 steps the last two ask for nothing more; they still write zeros
    assert sum(a.requests for a in copied) == asked_for * (8 + 2) // 8
    assert all(a.wavefronts == a.least_wavefronts == 4 * a.requests for a in copied)
    # at least one barrier a step before its operands are read
    assert 8 <= kernel.demand.barriers < 3 * 8
    # 4 blocks of 64 x 64: A and B of 64 x 32, two bytes each, 8 times
    assert kernel.demand.tensor_shared_bytes == 4 * 8 * 2 * (64 * 32 * 2)
