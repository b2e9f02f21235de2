"""Kernels a step away from what a rewrite is for: it keeps them as they are, or right."""

import re

import pytest
from naive_kernels import (
    BIAS_RELU,
    COLUMN_SUM,
    LAYER_NORM,
    MATMUL,
    SCALAR_MATMUL,
    SCALED,
    SOFTMAX,
)
from rewriting import variants

from solkit.tuner.proposers.rewriter.compiler_hints import Contiguous
from solkit.tuner.proposers.rewriter.fusion import FuseLaunches
from solkit.tuner.proposers.rewriter.loop_hoisting import Hoist
from solkit.tuner.proposers.rewriter.mask_removal import EvenSizes
from solkit.tuner.proposers.rewriter.one_pass import OnePass
from solkit.tuner.proposers.rewriter.program_order import Swapped
from solkit.tuner.proposers.rewriter.split_loops import Split
from solkit.tuner.proposers.rewriter.tile_constants import Constants, Retile
from solkit.tuner.proposers.rewriter.vectorise import Vectorise
from solkit.tuner.proposers.rewriter.whole_row import WholeRow

PLAIN = re.sub(r"tl.load\(([^,]*), mask=cols < N, other=.*?\)\n", r"tl.load(\1)\n", SOFTMAX)
MASKLESS = PLAIN.replace(", mask=cols < N)", ")")
"""A softmax of rows that its blocks of 64 divide."""
THREE_BLOCKS = {"M": 3, "N": 192}


@pytest.mark.parametrize("rewrite", [WholeRow(), Retile()])
def test_blocks_without_masks_stay_where_others_do_not_divide_the_row(is_right, rewrite):
    assert "mask" not in MASKLESS
    (variant,) = variants(rewrite, MASKLESS, **THREE_BLOCKS)
    assert "N == triton.next_power_of_2(N)" in variant or "N % BLOCK != 0" in variant
    assert is_right(variant, MASKLESS, **THREE_BLOCKS)


def test_blocks_with_masks_need_no_such_guard():
    (variant,) = variants(Retile(), SOFTMAX, **THREE_BLOCKS)
    assert "% BLOCK" not in variant
    (variant,) = variants(WholeRow(), SOFTMAX, **THREE_BLOCKS)
    assert "== triton.next_power_of_2(N)" not in variant


def test_blocks_whose_size_the_launcher_does_not_know_get_parts_of_their_own():
    unknown = MASKLESS.replace("N, BLOCK: tl.constexpr", "n_ptr, BLOCK: tl.constexpr")
    unknown = unknown.replace("start = tl", "N = tl.load(n_ptr)\n    start = tl")
    unknown = unknown.replace("x, out, N, BLOCK", "x, out, torch.full((1,), N), BLOCK")
    for variant in variants(Constants(), unknown, **THREE_BLOCKS):
        (space,) = re.findall(r'"BLOCK": \[(.*?)\]', variant)
        assert all(64 % int(size) == 0 for size in space.split(", "))


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        (SOFTMAX, "total = 0.0", "total = 1.0"),
        (SOFTMAX, "    total = 0.0", "    total = 0.0\n    i = x"),
        (LAYER_NORM, "sums = tl.zeros([BLOCK], dtype=tl.float32)", "sums = eps"),
        (LAYER_NORM, "squares = tl.zeros([BLOCK], dtype=tl.float32)", "squares = eps"),
        (LAYER_NORM, "tl.where(cols < N, x", "tl.where(cols < N - 1, x"),
        (LAYER_NORM, "mask=cols < N, other=0.0", "mask=(cols < N) & (cols > 0), other=0.0"),
    ],
)
def test_statistics_of_other_elements_or_with_other_starts_keep_two_passes(source, old, new):
    assert variants(OnePass(), source, **THREE_BLOCKS)
    assert not variants(OnePass(), source.replace(old, new), **THREE_BLOCKS)


LATE_SCALE = SCALED.replace("        scale = tl.load(scale_ptr)\n", "").replace(
    "x * scale, mask=cols < N)\n", "x * scale, mask=cols < N)\n        scale = tl.load(scale_ptr)\n"
)
SHIFTED = """
@triton.jit
def shift_kernel(x_ptr, out_ptr, N):
    row = tl.program_id(0)
    for i in range(0, N - 1):
        tl.store(out_ptr + row * N + i, tl.load(x_ptr + row * N + i + 1))


def kernel(x):
    M, N = x.shape
    out = x.clone()
    shift_kernel[(M,)](x, out, N)
    return out
"""
FROM_ZEROS = BIAS_RELU.replace("y = torch.empty_like(x)", "y = torch.zeros_like(x)")
BIASED = "bias_ptr + offs % N, mask=mask), mask=mask)"
ROLLED = COLUMN_SUM.replace("total += tl.load(", "x = tl.load(")
SUMMED = COLUMN_SUM[COLUMN_SUM.index("    for row") : COLUMN_SUM.index("    tl.store(")]
STORING = "        total += x\n        tl.store(out_ptr + row * N + cols, x)\n"
ADDING = "        tl.store(out_ptr + row * N + cols, x + tl.load(out_ptr + row * N - N + cols))\n"
SCATTERING = "        at = tl.load(x_ptr + row)\n        tl.store(out_ptr + at + row + cols, x)\n"


def with_trip(statements):
    """A loop over rows whose trips do what these statements do."""
    return ROLLED.replace("    tl.store(out_ptr + cols", statements + "    tl.store(out_ptr + cols")


@pytest.mark.parametrize(
    ("rewrite", "source", "old", "new"),
    [
        # an index that would stay as it is
        (Swapped(), SCALAR_MATMUL, "row = tl.program_id(0)", "row = tl.program_id(0)\n    "
         "twice = 2 * tl.num_programs(0)"),
        # the first trip's value is another
        (Hoist(), SCALED, SCALED, LATE_SCALE.replace("    for", "    scale = 1.0\n    for")),
        # a zero that stays
        (FuseLaunches(), FROM_ZEROS, BIASED, BIASED[:-1] + " & (offs > 5))"),
        # what trips read or write is that of other trips
        (Split(), with_trip(STORING), STORING, STORING + ADDING),
        (Split(), with_trip(STORING), STORING, STORING + SCATTERING),
        # a sum that goes on from what a loop or a branch left
        (Split(), COLUMN_SUM, SUMMED, SUMMED + SUMMED.replace("row", "other")),
        (Split(), COLUMN_SUM, SUMMED, "    if N > 5:\n        total += 1.0\n" + SUMMED),
        (Vectorise(), SHIFTED, "(x, out, N", "(out, out, N"),
    ],
)  # fmt: skip
def test_what_a_rewrite_relies_on_is_proven(rewrite, source, old, new):
    assert old in source
    assert variants(rewrite, source, **THREE_BLOCKS, K=32)
    assert not variants(rewrite, source.replace(old, new), **THREE_BLOCKS, K=32)


@pytest.mark.parametrize(
    ("old", "new", "mask"),
    [
        ("range(0, K, BLOCK_K)", "range(0, K + BLOCK_K, BLOCK_K)", "(k[None, :] < K)"),
        ("triton.cdiv(M, 32)", "triton.cdiv(max(M, N), 32)", "(m[:, None] < M)"),
    ],
)
def test_masks_of_blocks_beyond_a_size_stay(old, new, mask):
    (variant,) = variants(EvenSizes(), MATMUL.replace(old, new), **THREE_BLOCKS, K=32)
    even = variant.split("def matmul_kernel_even(")[1].split("def kernel(")[0]
    assert mask in even
    assert "(n[None, :] < N)" not in even


@pytest.mark.parametrize(
    ("value", "count"), [("x.to(tl.float32)", 0), ("x.to(tl.float16)", 0), ("x > 0", 1)]
)
def test_choices_that_make_integers_of_booleans_stay(value, count):
    source = """
@triton.jit
def counts(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n, other=0.0)
        value = VALUE
        total += tl.sum(tl.where(cols < n, value, 0) * 2, axis=0) - 1.0
    tl.store(y_ptr, total)


def kernel(x):
    y = torch.empty(1, device=x.device)
    counts[(1,)](x, y, x.numel(), BLOCK=16)
    return y
"""
    (variant,) = variants(EvenSizes(), source.replace("VALUE", value), N=32)
    assert variant.split("def counts_even(")[1].count("tl.where(") == count


@pytest.mark.parametrize(
    ("grid", "is_known"),
    [
        ("n // 16", True),
        ("(triton.cdiv(n, 16))", True),
        ("triton.cdiv(n, 16) + 1", False),
        ("triton.cdiv(n, 16) * 2", False),
        ("1, triton.cdiv(n, 16)", False),
    ],
)
def test_masks_leave_out_programs_beyond_the_blocks_of_a_size(grid, is_known):
    source = f"""
@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


def kernel(x):
    n, y = x.numel(), torch.empty_like(x)
    double[({grid},)](x, y, n, BLOCK=16)
    return y
"""
    assert bool(variants(EvenSizes(), source, N=32)) is is_known


PLACES = """
@triton.jit
def double(x, n):
    row = tl.program_id(0)
    src = x + row * n
    dst = x + row * n
    for i in range(1, n):
        tl.store(dst + i, tl.load(src + i) * 2)


def kernel(x):
    double[(x.shape[0],)](x, x.shape[1])
    return x
"""


@pytest.mark.parametrize("place", ["src + i - 1", "x + row * n + i - 1", "src - 1 + i"])
def test_pointers_with_names_are_to_the_tensor_that_they_start_from(place):
    assert variants(Vectorise(), PLACES, M=4, N=20)
    assert not variants(Vectorise(), PLACES.replace("load(src + i)", f"load({place})"), M=4, N=20)


def test_offsets_that_start_between_multiples_get_no_hint():
    (variant,) = variants(
        Contiguous(), MATMUL.replace("m = pid_m", "m = M + pid_m"), **THREE_BLOCKS
    )
    assert variant.count("tl.multiple_of(") == 1
    assert "tl.multiple_of(pid_n * BLOCK_N" in variant


PARTS = """
def reference(x):
    return x.sum()


def inputs(N=1000, device="cuda"):
    return (torch.randn(N, device=device),)


@triton.jit
def part_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + pid, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0), axis=0))


def kernel(x):
    n = x.numel()
    blocks = triton.cdiv(n, 256)
    parts = torch.empty(blocks, device=x.device)
    part_kernel[(blocks,)](x, parts, n, BLOCK=256)
    return parts.sum()
"""


def test_a_grid_that_is_named_ahead_follows_from_its_block():
    (variant,) = variants(Constants(), PARTS, N=1000)
    assert "blocks = triton.cdiv(n, BLOCK)" in variant


def test_blocks_that_decide_how_long_a_buffer_is_stay():
    twice = PARTS.replace("torch.empty(blocks", "torch.empty(triton.cdiv(n, 256)")
    (variant,) = variants(Constants(), twice, N=1000)
    assert '"BLOCK": [' not in variant


def test_blocks_that_decide_the_shape_of_an_output_stay():
    named = PARTS.replace("    blocks", "    B = 256\n    blocks").replace("(n, 256)", "(n, B)")
    for source in (PARTS, named.replace("BLOCK=256", "BLOCK=B")):
        whole = source.replace("return parts.sum()", "return parts")
        (tuned,) = variants(Constants(), source, N=1000)
        (variant,) = variants(Constants(), whole, N=1000)
        assert tuned.count('": [') == 2
        assert variant.count('": [') == 1  # warps alone


def test_a_number_of_blocks_that_two_launches_share_follows_from_the_block_of_each():
    shared = PARTS.replace("torch.empty(blocks", "torch.empty(n").replace(
        "    return parts",
        "    other_kernel[(blocks,)](x, parts, n, BLOCK=256)\n    return parts",
    )
    function = PARTS[PARTS.index("@triton.jit") : PARTS.index("def kernel")]
    shared = shared.replace("def kernel", function.replace("part_", "other_") + "def kernel")
    (variant,) = variants(Constants(), shared, N=1000)
    assert "part_kernel[(triton.cdiv(n, BLOCK),)]" in variant
    assert "BLOCK=BLOCK_2" in variant


UNPACK = """
@triton.jit
def unpack(p, s, w, K, N, BLOCK: tl.constexpr):
    k = tl.program_id(0)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    b = tl.load(p + (k // 2) * N + n, mask=n < N, other=0)
    scale = tl.load(s + (k // 8) * N + n, mask=n < N, other=0.0)
    tl.store(w + k * N + n, ((b >> ((k % 2) * 4)) & 15) * scale, mask=n < N)


@triton.jit
def product(x, w, out, M, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        inner = k < K
        rows, columns = m[:, None] < M, n[None, :] < N
        a = tl.load(x + m[:, None] * K + k[None, :], mask=rows & inner[None, :], other=0.0)
        b = tl.load(w + k[:, None] * N + n[None, :], mask=inner[:, None] & columns, other=0.0)
        acc += tl.dot(a, b)
    tl.store(out + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


def kernel(x, p, s):
    M, K, N = *x.shape, p.shape[1]
    w = torch.empty((K, N), dtype=torch.float32, device=x.device)
    unpack[(K, triton.cdiv(N, 32))](p, s, w, K, N, BLOCK=32)
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    product[(triton.cdiv(M, 16), triton.cdiv(N, 16))](x, w, out, M, K, N, BM=16, BN=16, BK=32)
    return out


def inputs(M=5, K=24, N=19, device="cpu"):
    p = torch.randint(0, 256, (K // 2, N), dtype=torch.uint8, device=device)
    return torch.randn(M, K, device=device), p, torch.rand(K // 8, N, device=device)


def reference(x, p, s):
    w = torch.stack([p & 15, p >> 4], 1).reshape(-1, p.shape[1]) * s.repeat_interleave(8, 0)
    return x @ w
"""


def test_a_writer_whose_grid_ends_where_no_mask_does_reads_no_further_in_its_reader(is_right):
    plain = UNPACK.replace("rows, columns = m[:, None] < M, n[None, :] < N", TWO_LINES)
    (variant,) = variants(FuseLaunches(), plain, M=5, K=24, N=19)
    loads = [line for line in variant.splitlines() if "p +" in line or "s +" in line]
    assert len(loads) == 2
    assert all("inner[:, None]" in line and "columns" in line for line in loads)
    assert is_right(variant, plain, M=5, K=24, N=19)


TWO_LINES = "rows = m[:, None] < M\n        columns = n[None, :] < N"


def test_a_reader_whose_mask_is_not_known_keeps_that_writer():
    assert not variants(FuseLaunches(), UNPACK, M=5, K=24, N=19)
