"""Each rewrite: what it writes, that it is right, and where it does not apply."""

import pytest
from naive_kernels import (
    BIAS_RELU,
    COLUMN_SUM,
    LAYER_NORM,
    MATMUL,
    SCALAR_MATMUL,
    SCALAR_SOFTMAX,
    SCALED,
    SOFTMAX,
)
from rewriting import HEADER, rewritten, variants

from solkit.tuner.proposers.rewriter.constants import Constants, Retile
from solkit.tuner.proposers.rewriter.fusion import FuseLaunches
from solkit.tuner.proposers.rewriter.hints import Contiguous, Eviction
from solkit.tuner.proposers.rewriter.loops import Hoist
from solkit.tuner.proposers.rewriter.masks import EvenSizes
from solkit.tuner.proposers.rewriter.one_pass import OnePass
from solkit.tuner.proposers.rewriter.operands import Accumulators, Operands
from solkit.tuner.proposers.rewriter.order import Grouped, Swapped
from solkit.tuner.proposers.rewriter.persistent import Persistent
from solkit.tuner.proposers.rewriter.rows import Rows, Tile
from solkit.tuner.proposers.rewriter.split import Split
from solkit.tuner.proposers.rewriter.vectorise import Vectorise
from solkit.tuner.proposers.rewriter.whole_row import WholeRow

ROWS = {"M": 6, "N": 256}
SIDES = {"M": 64, "N": 64, "K": 64}


def test_a_whole_row_is_read_once_and_longer_rows_keep_the_original(is_right):
    (made,) = variants(WholeRow(), SOFTMAX, **ROWS)
    new = made.split("def softmax_kernel_whole_row")[1].split("def kernel")[0]
    assert new.count("tl.load(") == 1
    assert "for " not in new
    assert "if N <= 32768:" in made
    assert "softmax_kernel[(M,)](x, out, N, BLOCK=64)  # a row a program" in made
    assert made.startswith(HEADER.rstrip())
    is_right(made, SOFTMAX, **ROWS)


def test_a_whole_row_keeps_what_later_loops_change(is_right):
    (made,) = variants(WholeRow(), LAYER_NORM, **ROWS)
    new = made.split("def layer_norm_kernel_whole_row")[1].split("def kernel")[0]
    assert new.count("tl.load(") == 1  # though x is assigned anew after the first loop
    is_right(made, LAYER_NORM, **ROWS)


def test_a_row_that_is_written_between_its_loops_is_read_again():
    in_place = SOFTMAX.replace(
        "softmax_kernel[(M,)](x, out,", "softmax_kernel[(M,)](x, x,"
    ).replace("total = 0.0\n", "total = 0.0\n    tl.store(out_ptr + start, 0.0)\n")
    (made,) = variants(WholeRow(), in_place, **ROWS)
    new = made.split("def softmax_kernel_whole_row")[1].split("def kernel")[0]
    assert new.count("tl.load(") == 2


@pytest.mark.parametrize("source", [MATMUL, SCALAR_SOFTMAX, COLUMN_SUM, BIAS_RELU])
def test_a_whole_row_needs_blocked_loops_that_load_the_same(source):
    assert not variants(WholeRow(), source, **ROWS)


def test_loops_over_elements_become_loops_over_blocks(is_right):
    (made,) = variants(Vectorise(), SCALAR_SOFTMAX, **ROWS)
    assert "for j_start in range(0, n_cols, BLOCK):" in made
    assert "peak_now = tl.maximum(peak, tl.max(tl.where(j_mask" in made
    assert made.count("mask=j_mask") == 3
    is_right(made, SCALAR_SOFTMAX, **ROWS)


def test_loops_over_rows_of_a_block_get_two_axes(is_right):
    (made,) = variants(Vectorise(), COLUMN_SUM, M=256, N=64)
    assert "cols[None, :]" in made
    assert ", axis=0)" in made
    is_right(made, COLUMN_SUM, M=256, N=64)


def test_loops_that_carry_other_things_stay():
    product = COLUMN_SUM.replace("total += tl.load(", "total = total * 0.5 + total * tl.load(")
    assert not variants(Vectorise(), product, M=256, N=64)


TERM = "total += tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0)"
MOVING = COLUMN_SUM.replace(
    TERM, "total += tl.load(x_ptr + cols, mask=cols < N, other=0.0)\n        x_ptr += N"
)


@pytest.mark.parametrize("bounds", ["M", "0, M", "3 - 3, M", "0, M // 2 * 2"])
def test_pointers_that_move_on_follow_from_the_trip(is_right, bounds):
    source = MOVING.replace("range(M)", f"range({bounds})")
    (made,) = variants(Vectorise(), source, M=256, N=64)
    assert "x_ptr +=" not in made
    is_right(made, source, M=256, N=64)


def test_what_is_read_after_a_pointer_moved_is_one_trip_ahead(is_right):
    ahead = COLUMN_SUM.replace("range(M)", "range(M - 1)").replace(
        TERM, "x_ptr += N\n        total += tl.load(x_ptr + cols, mask=cols < N, other=0.0)"
    )
    ahead = ahead.replace("x.sum(0)", "x[1:].sum(0)")
    (made,) = variants(Vectorise(), ahead, M=256, N=64)
    is_right(made, ahead, M=256, N=64)


@pytest.mark.parametrize(
    "more",
    [
        f"{TERM}\n        total += 1.0",  # once an element, and read after the loop
        f"{TERM}\n        total = total * 0.5",
        f"{TERM}\n        total = total + 1.0",
    ],
)
def test_what_happens_once_an_element_is_not_done_once_a_block(more):
    assert not variants(Vectorise(), COLUMN_SUM.replace(TERM, more), M=256, N=64)


def test_a_program_takes_several_rows(is_right):
    (made,) = variants(Rows(), SOFTMAX, **ROWS)
    assert "tl.program_id(0) * ROWS + tl.arange(0, ROWS)" in made
    assert 'peak = tl.full((ROWS,), float("-inf"), tl.float32)' in made
    assert "softmax_kernel[(triton.cdiv(M, ROWS),)]" in made
    is_right(made, SOFTMAX, **ROWS)


def test_a_branch_on_the_row_becomes_a_mask(is_right):
    (made,) = variants(Rows(), SCALED, **ROWS)
    assert "row_mask = row_mask & ~(row >= M)" in made
    assert "return\n    for" not in made
    is_right(made, SCALED, **ROWS)


@pytest.mark.parametrize("source", [MATMUL, BIAS_RELU])
def test_rows_need_an_axis_that_no_constant_tiles(source):
    assert not variants(Rows(), source, **SIDES)


def test_an_element_a_program_becomes_a_tile_with_products(is_right):
    (made,) = variants(Tile(), SCALAR_MATMUL, M=48, N=32, K=40)
    assert "tl.dot(" in made
    assert "(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))" in made
    is_right(made, SCALAR_MATMUL, M=48, N=32, K=40)
    assert not variants(Tile(), MATMUL, **SIDES)


def test_constants_become_parameters_in_the_grid_too(is_right):
    (made,) = variants(Constants(), MATMUL, **SIDES)
    assert "triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N)" in made
    assert (
        "def kernel(a, b, *, BLOCK_M=32, BLOCK_N=16, BLOCK_K=16, num_warps=4, num_stages=3)" in made
    )
    assert '"BLOCK_M": [16, 32, 64, 128, 256]' in made
    is_right(made, MATMUL, **SIDES)


def test_a_constant_that_the_reference_uses_is_part_of_the_problem():
    source = SOFTMAX.replace("BLOCK=64)", "BLOCK=WIDTH)")
    plain = f"WIDTH = 64\n{source}"
    (made,) = variants(Constants(), plain, **ROWS)
    assert "WIDTH=64, num_warps=4" in made
    used = plain.replace("torch.softmax(x, dim=-1)", "torch.softmax(x * (WIDTH / 64), dim=-1)")
    (made,) = variants(Constants(), used, **ROWS)
    assert "WIDTH=64" not in made


GROUPED = MATMUL.replace(
    "    pid_m = tl.program_id(0)\n    pid_n = tl.program_id(1)\n",
    "    pid = tl.program_id(0)\n"
    "    per_group = 2 * tl.cdiv(N, BLOCK_N)\n"
    "    first_m = pid // per_group * 2\n"
    "    high = min(tl.cdiv(M, BLOCK_M) - first_m, 2)\n"
    "    pid_m = first_m + pid % per_group % high\n"
    "    pid_n = pid % per_group // high\n",
)


@pytest.mark.parametrize(
    ("grid", "given"),
    [
        (
            "lambda META: (triton.cdiv(M, META['BLOCK_M']) * triton.cdiv(N, META['BLOCK_N']),)",
            "BLOCK_M=32, BLOCK_N=16",
        ),
        (
            "(triton.cdiv(M, tall) * triton.cdiv(N, wide),)",
            "BLOCK_M=tall, BLOCK_N=wide",
        ),
    ],
)
def test_blocks_in_an_order_that_is_computed_become_parameters(grid, given, is_right):
    source = GROUPED.replace("(triton.cdiv(M, 32), triton.cdiv(N, 16))", grid)
    source = source.replace("BLOCK_M=32, BLOCK_N=16", given)
    source = source.replace("    grid = ", "    tall = 32\n    wide = 16\n    grid = ")
    (made,) = variants(Constants(), source, **SIDES)
    launcher = made.split("def kernel(")[1].partition(":")[0]
    assert launcher.count("=32") == launcher.count("=16") - 1 == 1  # BLOCK_K is 16 as well
    is_right(made, source, **SIDES)
    (larger,) = variants(Retile(), source, **SIDES)
    assert larger.split("def kernel(")[1].partition(":")[0].count("=128") == 2
    is_right(larger, source, **SIDES)


def test_blocks_that_the_grid_does_not_follow_stay():
    fixed = "(triton.cdiv(M, 32) * triton.cdiv(N, 16),)"
    source = GROUPED.replace("(triton.cdiv(M, 32), triton.cdiv(N, 16))", fixed)
    (made,) = variants(Constants(), source, **SIDES)
    assert "def kernel(a, b, *, BLOCK_K=16, num_warps=4, num_stages=3)" in made


def test_constants_that_are_parameters_stay():
    (made,) = variants(Constants(), LAYER_NORM, **ROWS)
    assert "def kernel(x, *, BLOCK=64, num_warps=4, num_stages=3)" in made
    assert not variants(Constants(), made.removeprefix(HEADER), **ROWS)


def test_blocks_grow(is_right):
    (made,) = variants(Retile(), MATMUL, **SIDES)
    assert "BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8" in made
    is_right(made, MATMUL, **SIDES)
    assert not variants(Retile(), made.removeprefix(HEADER), **SIDES)


def test_two_launches_become_one(is_right):
    (made,) = variants(FuseLaunches(), BIAS_RELU, M=64, N=96)
    assert made.count("@triton.jit") == 1
    assert made.count("torch.empty_like") == 1
    assert made.count("tl.store(") == 1
    is_right(made, BIAS_RELU, M=64, N=96)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("relu_kernel[grid](y, out", "relu_kernel[(7,)](y, out"),  # another grid
        ("return out", "return out, y"),  # its result is used elsewhere
        ("x = tl.load(x_ptr + at, mask=at < n)", "x = tl.load(x_ptr + at + 1, mask=at < n - 1)"),
    ],
)
def test_launches_that_differ_stay_two(old, new):
    assert not variants(FuseLaunches(), BIAS_RELU.replace(old, new), M=64, N=96)


def test_a_long_sum_is_split_and_joined(is_right):
    (made,) = variants(Split(), COLUMN_SUM, M=256, N=64)
    assert "for row in range(tl.program_id(1), M, SPLIT):" in made
    assert "dtype=torch.float32, device=x.device)" in made
    assert "atomic" not in made
    is_right(made, COLUMN_SUM, M=256, N=64)
    assert not variants(Split(), made.removeprefix(HEADER), M=256, N=64)


def test_products_are_split_along_k(is_right):
    (made,) = variants(Split(), MATMUL, **SIDES)
    is_right(made, MATMUL, **SIDES)


def test_sums_that_are_not_fp32_are_not_split():
    assert not variants(Split(), COLUMN_SUM.replace("dtype=tl.float32)", "dtype=tl.float16)"))


def test_operands_stay_narrow():
    (made,) = variants(Operands(), MATMUL, **SIDES)
    assert "acc += tl.dot(a, b)" in made
    assert not variants(Operands(), made.removeprefix(HEADER), **SIDES)


def test_sums_of_products_become_products(is_right):
    slow = MATMUL.replace(
        "tl.dot(a.to(tl.float32), b.to(tl.float32))",
        "tl.sum(a[:, :, None] * b[None, :, :], axis=1)",
    )
    (made,) = variants(Operands(), slow, **SIDES)
    assert "acc += tl.dot(a, b)" in made
    is_right(made, slow, **SIDES)


def test_sums_are_kept_in_fp32():
    narrow = COLUMN_SUM.replace("dtype=tl.float32)", "dtype=tl.float16)")
    (made,) = variants(Accumulators(), narrow, M=256, N=64)
    assert "tl.zeros((BLOCK,), dtype=tl.float32)" in made
    assert not variants(Accumulators(), COLUMN_SUM, M=256, N=64)


def test_tiles_are_visited_in_groups(is_right):
    (made,) = variants(Grouped(), MATMUL, M=200, N=100, K=32)
    assert "tl.swizzle2d(" in made
    assert '"GROUP_M"' in made
    is_right(made, MATMUL, M=200, N=100, K=32)
    assert not variants(Grouped(), SOFTMAX, **ROWS)


def test_the_axes_of_a_grid_change_places(is_right):
    tiled = rewritten(Tile(), SCALAR_MATMUL, M=48, N=32, K=40)
    assert not variants(Swapped(), tiled)  # it has tl.dot
    (made,) = variants(Swapped(), SCALAR_MATMUL, M=48, N=32, K=40)
    assert "matmul_kernel[(N, M)]" in made
    assert "row = tl.program_id(1)" in made
    is_right(made, SCALAR_MATMUL, M=48, N=32, K=40)


def test_maximum_and_sum_of_exponentials_take_one_pass(is_right):
    (made,) = variants(OnePass(), SOFTMAX, **ROWS)
    assert made.count("for i in range") == 2
    assert "total = total * tl.exp(peak - peak_shift)" in made
    is_right(made, SOFTMAX, **ROWS)


def test_mean_and_variance_take_one_pass_that_does_not_cancel(is_right):
    (made,) = variants(OnePass(), LAYER_NORM, **ROWS)
    assert made.count("for start in range") == 2
    is_right(made, LAYER_NORM, **ROWS)  # among others with means of 100


def test_sums_of_other_things_are_not_rescaled():
    other = SOFTMAX.replace("tl.sum(tl.exp(x - peak), axis=0)", "tl.sum(x - peak, axis=0)")
    assert not variants(OnePass(), other, **ROWS)


def test_programs_stay(is_right):
    (made,) = variants(
        Persistent(), SCALED.replace("    if row >= M:\n        return\n", ""), **ROWS
    )
    assert "for tile in range(tl.program_id(0), n_row, tl.num_programs(0)):" in made
    assert "multi_processor_count" in made
    is_right(made, SCALED, M=512, N=64)


def test_programs_that_return_or_assign_parameters_do_not_stay():
    assert not variants(Persistent(), SCALED, **ROWS)
    assert not variants(Persistent(), LAYER_NORM, **ROWS)


def test_loads_that_no_trip_changes_move_ahead_of_the_loop(is_right):
    (made,) = variants(Hoist(), SCALED, **ROWS)
    assert made.index("scale = tl.load(scale_ptr)") < made.index("for start")
    is_right(made, SCALED, **ROWS)


def test_loads_of_what_the_loop_writes_stay_in_it():
    written = SCALED.replace("tl.store(out_ptr + row * N + cols", "tl.store(scale_ptr + cols")
    assert not variants(Hoist(), written, **ROWS)


def test_sizes_that_blocks_divide_need_no_masks(is_right):
    (made,) = variants(EvenSizes(), MATMUL, **SIDES)
    new = made.split("def matmul_kernel_even")[1].split("def kernel")[0]
    assert "mask" not in new
    assert "if M % 32 == 0 and K % 16 == 0 and N % 16 == 0:" in made
    is_right(made, MATMUL, **SIDES)


@pytest.mark.parametrize("rewrite", [Constants(), Retile()])
def test_a_guard_follows_the_block_that_becomes_a_parameter(is_right, rewrite):
    even = rewritten(EvenSizes(), BIAS_RELU, M=64, N=96)
    assert "if x.numel() % 64 == 0:" in even
    (made,) = variants(rewrite, even, M=64, N=96)
    assert "% 64" not in made
    is_right(made, BIAS_RELU, M=64, N=96)
    is_right(made, BIAS_RELU, M=33, N=32)  # 64 and 96 divide none of these


def test_masks_of_other_kinds_stay():
    shifted = SOFTMAX.replace(
        "cols = i + tl.arange(0, BLOCK)", "cols = i + 1 + tl.arange(0, BLOCK)"
    )
    assert not variants(EvenSizes(), shifted, **ROWS)


def test_what_all_programs_read_stays_in_the_cache(is_right):
    (made,) = variants(Eviction(), SCALED, **ROWS)
    assert 'tl.load(scale_ptr, eviction_policy="evict_last")' in made
    assert 'eviction_policy="evict_first"' in made
    is_right(made, SCALED, **ROWS)
    assert not variants(Eviction(), MATMUL, **SIDES)


def test_policies_are_written_after_a_load_on_several_lines(is_right):
    load = "tl.load(x_ptr + row * N + cols, mask=cols < N)"
    wrapped = SCALED.replace(
        load, "tl.load(\n            x_ptr + row * N + cols,\n            mask=cols < N,\n        )"
    )
    assert wrapped != SCALED
    (made,) = variants(Eviction(), wrapped, **ROWS)
    assert 'eviction_policy="evict_first"' in made
    is_right(made, wrapped, **ROWS)


def test_a_constant_ahead_of_other_parameters_goes_by_keyword(is_right):
    params = "x_ptr, BLOCK: tl.constexpr, out_ptr, N"
    ahead = SOFTMAX.replace("x_ptr, out_ptr, N, BLOCK: tl.constexpr", params)
    ahead = ahead.replace("(x, out, N, BLOCK=64)", "(x, BLOCK=64, out_ptr=out, N=N)")
    assert params in ahead
    assert "out_ptr=out" in ahead
    (made,) = variants(WholeRow(), ahead, **ROWS)
    is_right(made, ahead, **ROWS)


def test_blocks_are_said_to_be_contiguous(is_right):
    (made,) = variants(Contiguous(), BIAS_RELU, M=64, N=96)
    assert made.count("tl.max_contiguous(tl.multiple_of(") == 2
    is_right(made, BIAS_RELU, M=64, N=96)
    assert not variants(Contiguous(), SCALED, **ROWS)
