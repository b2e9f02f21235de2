"""Sizes of blocks and grids, from which defaults of rewritten files follow."""

import ast
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from naive_kernels import MATMUL, SOFTMAX
from rewriting import HEADER, brief, rewritten, variants

from solkit.tuner.proposers.rewriter._mutation import Facts
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter._shapes import block_shapes, elements_of
from solkit.tuner.proposers.rewriter.flat_grids import separated_axes
from solkit.tuner.proposers.rewriter.program_order import Grouped
from solkit.tuner.proposers.rewriter.row_tiles import Rows
from solkit.tuner.proposers.rewriter.tile_constants import Constants, Retile
from solkit.tuner.proposers.rewriter.whole_row import WholeRow

ROWS_SUM = """
@triton.jit
def decode(q, k, o, S, D: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0)
    d = tl.arange(0, D)
    x = tl.load(q + row * D + d)
    total = tl.zeros([D], tl.float32)
    for s in range(0, S, BN):
        n = s + tl.arange(0, BN)
        y = tl.load(k + n[:, None].to(tl.int64) * D + d[None, :]).to(tl.float32)
        w = tl.sum(x[None, :] * y, axis=1)
        total += tl.sum(w[:, None] * y, axis=0)
    tl.store(o + row * D + d, total)


def kernel(q, k):
    M, D = q.shape
    o = torch.empty_like(q)
    decode[(M,)](q, k, o, k.shape[0], D=D, BN=16)
    return o
"""


def function_of(source):
    text = parse_kernel(HEADER + source)
    return text, text.single[0]


def measured(source, grid, constants, **shape):
    """Facts of a file whose only launch was recorded."""
    _, launch = function_of(source)
    name = launch.function.name
    record = SimpleNamespace(name=name, grid=grid, constants=constants, arguments={})
    analysis = SimpleNamespace(own=[SimpleNamespace(launch=record)])
    result = SimpleNamespace(analysis=analysis, gap=None)
    return Facts(replace(brief(source, **shape), result=result))


def test_shapes_follow_broadcasting_and_reductions():
    _, launch = function_of(ROWS_SUM)
    shapes = block_shapes(launch.function)
    assert ("BN", "D") in shapes
    assert ("BN",) in shapes
    assert max(elements_of(s, {"BN": 16, "D": 64}) for s in shapes) == 1024


def test_blocks_do_not_outgrow_registers():
    facts = measured(ROWS_SUM, (256, 1, 1), {"D": 64, "BN": 16}, M=256, S=4096, D=64)
    text, _ = function_of(ROWS_SUM)
    (new_source,) = [variant.source for variant in Retile().variants(text, facts)]
    assert "BN=64" in new_source  # 64 x 64 are 4096 elements
    assert "num_warps=8" in new_source  # 16 values a thread


def test_blocks_are_no_longer_than_what_they_walk_over():
    short = ROWS_SUM.replace("o, k.shape[0],", "o, 32,")
    facts = measured(short, (256, 1, 1), {"D": 64, "BN": 16}, M=256, D=64)
    (variant,) = Retile().variants(function_of(short)[0], facts)
    assert "BN=32" in variant.source


@pytest.mark.parametrize(("columns", "warps"), [(16, 1), (128, 8)])
def test_small_products_in_many_programs_get_few_warps(columns, warps):
    source = PRODUCTS.replace("N=16", f"N={columns}")
    constants = {"M": columns, "N": columns}
    for programs, expected in ((50_000, warps), (100, 8)):
        facts = measured(source, (programs, 1, 1), constants, B=programs)
        (variant,) = Retile().variants(function_of(source)[0], facts)
        assert f"num_warps={expected}" in variant.source


PRODUCTS = """
@triton.jit
def bmm(a, b, c, N: tl.constexpr):
    i = tl.program_id(0) * N * N
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(c + i + at, tl.dot(tl.load(a + i + at), tl.load(b + i + at)))


def kernel(a, b):
    c = torch.empty_like(a)
    bmm[(a.shape[0],)](a, b, c, N=16)
    return c
"""


@pytest.mark.parametrize(("rows", "programs"), [(1, 1000), (8, 125)])
def test_grids_of_rewritten_files_are_computed(rows, programs):
    facts = measured(ROWS_SUM, (1000, 1, 1), {"D": 64, "BN": 16})
    source = ROWS_SUM.replace("(M,)", "(triton.cdiv(M, ROWS),)").replace(
        "def kernel(q, k)", f"def kernel(q, k, *, ROWS={rows})"
    )
    _, launch = function_of(source)
    assert facts.programs(launch) == programs


TILED = """
@triton.jit
def add(a, b, M, N, R: tl.constexpr, C: tl.constexpr):
    pid = tl.program_id(0)
    r = pid // tl.cdiv(N, C) * R + tl.arange(0, R)
    c = (pid % tl.cdiv(N, C)) * C + tl.arange(0, C)
    at = r[:, None] * N + c[None, :]
    ok = (r[:, None] < M) & (c[None, :] < N)
    tl.store(b + at, tl.load(a + at, mask=ok) + 1, mask=ok)


def kernel(a):
    M, N = a.shape
    b = torch.empty_like(a)
    add[(triton.cdiv(M, 16) * triton.cdiv(N, 32),)](a, b, M, N, R=16, C=32)
    return b
"""


def test_programs_that_have_a_tile_take_no_rows():
    assert not variants(Rows(), TILED, M=64, N=64)
    lifted = rewritten(Retile(), TILED, M=64, N=64)
    assert "triton.cdiv(M, R) * triton.cdiv(N, C)" in lifted
    assert not variants(Rows(), lifted, M=64, N=64)


def test_equal_numbers_of_a_flat_grid_are_told_apart():
    square = TILED.replace("triton.cdiv(M, 16)", "triton.cdiv(M, 32)").replace("R=16", "R=32")
    (lifted,) = variants(Constants(), square, M=64, N=64)
    assert "triton.cdiv(M, R) * triton.cdiv(N, C)" in lifted
    unknown = square.replace("pid // tl.cdiv(N, C)", "pid // wide").replace(
        "pid % tl.cdiv(N, C)", "pid % wide"
    )
    (lifted,) = variants(Constants(), unknown, M=64, N=64)
    assert "triton.cdiv(M, 32) * triton.cdiv(N, 32)" in lifted


def test_a_block_of_a_loop_has_no_more_values_than_the_loop_has_trips():
    source = ROWS_SUM.replace("o, k.shape[0],", "o, 8,").replace("BN=16", "BN=BN")
    source = source.replace("def kernel(q, k)", "def kernel(q, k, *, BN=16)")
    source = f'SPACE = {{"BN": [4, 8, 16, 32, 64]}}\n{source}'
    facts = measured(source, (256, 1, 1), {"D": 64, "BN": 16}, M=256, D=64)
    (variant,) = Retile().variants(function_of(source)[0], facts)
    assert '"BN": [1, 2, 4, 8]' in variant.source
    assert "BN=8" in variant.source


def test_a_loop_has_a_block_of_its_own():
    shared = ROWS_SUM.replace("    row = tl.program_id(0)\n", "    row = tl.program_id(0) * R\n")
    shared = shared.replace("BN: tl.constexpr)", "BN: tl.constexpr, R: tl.constexpr)").replace(
        "    decode[(M,)](q, k, o, k.shape[0], D=D, BN=16)",
        "    size = 16\n"
        "    decode[(triton.cdiv(M, size),)](q, k, o, k.shape[0], D=D, BN=size, R=size)",
    )
    (lifted,) = variants(Constants(), shared, M=64, S=64, D=16)
    assert "BN=BN, R=size" in lifted


def test_blocks_of_tiles_in_patches_still_decide_the_grid():
    even = MATMUL.replace("triton.cdiv(N, 16)", "triton.cdiv(N, 32)")
    even = even.replace("BLOCK_N=16", "BLOCK_N=32")
    patches = rewritten(Grouped(), even, M=140, N=40, K=16)
    assert "tl.swizzle2d(" in patches
    (source,) = variants(Constants(), patches, M=140, N=40, K=16)
    assert "triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N)" in source
    assert "BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N" in "".join(source.replace("\n", " ").split("  "))


@pytest.mark.parametrize(("length", "count"), [(32768, 1), (32769, 0)])
def test_a_row_that_is_longer_than_a_block_may_be_is_no_whole_row(length, count):
    facts = measured(SOFTMAX, (8, 1, 1), {"N": length, "BLOCK": 64}, M=8, N=length)
    text, _ = function_of(SOFTMAX)
    assert len([*WholeRow().variants(text, facts)]) == count


def test_a_grid_that_two_launches_share_follows_each_one_s_block():
    source = """
@triton.jit
def double(x_ptr, y_ptr, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 2, mask=offs < n)


@triton.jit
def halve(x_ptr, y_ptr, n, C: tl.constexpr):
    offs = tl.program_id(0) * C + tl.arange(0, C)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) / 2, mask=offs < n)


def kernel(x):
    y, z, n = torch.empty_like(x), torch.empty_like(x), x.numel()
    grid = (triton.cdiv(n, 64),)
    double[grid](x, y, n, B=64)
    halve[grid](y, z, n, C=64)
    return z
"""
    (lifted,) = variants(Constants(), source, n=1000)
    assert "double[(triton.cdiv(n, B),)]" in lifted
    assert "grid = (triton.cdiv(n, C),)\n" in lifted


@pytest.mark.parametrize("part", ["blocks // 2", "triton.cdiv(n, 64) // 2"])
def test_a_grid_over_a_part_of_the_blocks_keeps_them(part):
    source = """
@triton.jit
def double(x_ptr, y_ptr, n, B: tl.constexpr):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 2, mask=offs < n)


def kernel(x):
    y, n = torch.zeros_like(x), x.numel()
    blocks = triton.cdiv(n, 64)
    double[(blocks,)](x, y, n, B=64)
    return y
"""
    (lifted,) = variants(Constants(), source, n=1000)
    assert "blocks = triton.cdiv(n, B)\n" in lifted
    for kept in variants(Constants(), source.replace("(blocks,)", f"({part},)"), n=1000):
        assert "B=64" in kept


@pytest.mark.parametrize(("step", "least"), [(16, 2), (256, 32), (1 << 14, 1024)])
def test_trips_of_a_loop_do_not_become_far_more(step, least):
    (tuned,) = variants(Constants(), ROWS_SUM.replace("BN=16", f"BN={step}"), S=50257)
    values = re.search(r'"BN": (\[[\d, ]+\])', tuned)
    assert min(ast.literal_eval(values[1])) == least


FLAT_SQUARES = """
def reference(x, w):
    return x @ w


def inputs(M=80, N=96, K=64, device="cuda"):
    return torch.randn(M, K, device=device), torch.randn(K, N, device=device)


@triton.jit
def product(x, w, y, M, N, K, BLOCK: tl.constexpr):
    across = tl.cdiv(N, BLOCK)
    m = tl.program_id(0) // across * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(0) % across * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for step in range(0, K, BLOCK):
        k = step + tl.arange(0, BLOCK)
        a = tl.load(x + m[:, None] * K + k, mask=(m[:, None] < M) & (k < K), other=0)
        b = tl.load(w + k[:, None] * N + n, mask=(k[:, None] < K) & (n < N), other=0)
        acc += tl.dot(a, b)
    tl.store(y + m[:, None] * N + n, acc, mask=(m[:, None] < M) & (n < N))


def kernel(x, w):
    (M, K), N = x.shape, w.shape[1]
    y = torch.empty(M, N, device=x.device)
    product[(triton.cdiv(M, 32) * triton.cdiv(N, 32),)](x, w, y, M, N, K, BLOCK=32)
    return y
"""


def test_one_size_of_all_axes_changes_the_whole_grid_and_fits_into_shared_memory(is_right):
    shape = {"M": 80, "N": 96, "K": 64}
    (variant,) = variants(Retile(), FLAT_SQUARES, **shape)
    assert "product[(triton.cdiv(M, BLOCK) * triton.cdiv(N, BLOCK),)]" in variant
    assert ", BLOCK=64" in variant  # 128 by 128 three times are more than a multiprocessor has
    assert is_right(variant, FLAT_SQUARES, **shape)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y = torch", "parts = torch.empty(triton.cdiv(M, 32), N)\n    y = torch"),
        ("    product[", "    t = triton.cdiv(N, 32)\n    product["),
        ("across = tl.cdiv(N, BLOCK)", "across = tl.cdiv(N, 32)"),
    ],
)
def test_a_number_that_divides_more_than_is_changed_stays(old, new):
    source = FLAT_SQUARES.replace(old, new)
    if "    t = " in new:
        source = source.replace("* triton.cdiv(N, 32),", "* t,")
    assert source != FLAT_SQUARES
    assert not any('"BLOCK": [' in v for v in variants(Constants(), source, M=80, N=96, K=64))


GRAM = """
def reference(x):
    return x @ x.T


def inputs(M=80, K=64, device="cuda"):
    return (torch.randn(M, K, device=device),)


@triton.jit
def gram(x, y, M, K, R: tl.constexpr, C: tl.constexpr):
    across = tl.cdiv(M, R)
    m = tl.program_id(0) // across * R + tl.arange(0, R)
    n = tl.program_id(0) % across * R + tl.arange(0, R)
    acc = tl.zeros((R, R), tl.float32)
    for step in range(tl.cdiv(K, C)):
        k = step * C + tl.arange(0, C)
        a = tl.load(x + m[:, None] * K + k, mask=(m[:, None] < M) & (k < K), other=0)
        b = tl.load(x + n[:, None] * K + k, mask=(n[:, None] < M) & (k < K), other=0)
        acc += tl.dot(a, tl.trans(b), input_precision="ieee")
    tl.store(y + m[:, None] * M + n, acc, mask=(m[:, None] < M) & (n < M))


def kernel(x):
    M, K = x.shape
    y = torch.empty(M, M, device=x.device)
    gram[(triton.cdiv(M, 32) * triton.cdiv(M, 32),)](x, y, M, K, R=32, C=32)
    return y
"""


def test_both_axes_of_a_square_follow_one_size_and_not_an_equal_one_of_a_loop():
    (variant,) = variants(Constants(), GRAM, M=80, K=64)
    assert "triton.cdiv(M, R) * triton.cdiv(M, R)" in variant


CAPPED = """
def reference(x):
    return x * 2


def inputs(n=300, device="cuda"):
    return (torch.randn(n, device=device),)


@triton.jit
def double(x, out, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def kernel(x):
    n = x.shape[0]
    block = min(32, triton.next_power_of_2(n))
    out = torch.empty_like(x)
    double[(triton.cdiv(n, block),)](x, out, n, B=block)
    return out
"""


@pytest.mark.parametrize(
    ("size", "capped"),
    [
        ("triton.next_power_of_2(n)", "block = min(B, triton.next_power_of_2(n))"),
        ("n", "block = B if B <= n else min(32, n)"),  # n itself may be no block
    ],
)
def test_a_block_that_a_size_caps_is_tuned_up_to_that_size(is_right, size, capped):
    source = CAPPED.replace("triton.next_power_of_2(n)", size)
    (first,) = variants(Retile(), source, n=4096)
    assert capped in first
    assert "B=1024" in first
    assert is_right(first, source, n=4096)


@pytest.mark.parametrize(
    "block", ["min(32, len(x))", "min(n, 2 * n)", "max(32, n)", "min(32, n, 64)", "min(n, 0)"]
)
def test_other_blocks_that_depend_on_a_size_stay(block):
    source = CAPPED.replace("min(32, triton.next_power_of_2(n))", block)
    assert not any("block = " not in v or " if B <= n" in v for v in variants(Retile(), source))


BOTH_WAYS = """
def reference(q, k):
    return torch.cos(q[:, None] * k[None, :]).sum(1)


def inputs(n=96, device="cuda"):
    return torch.randn(n, device=device), torch.randn(n, device=device)


@triton.jit
def waves(q, k, out, n, B: tl.constexpr):
    begin = tl.program_id(0) * B
    rows = begin + tl.arange(0, B)
    x = tl.load(q + rows, mask=rows < n, other=0.0)
    total = tl.zeros([B], tl.float32)
    for start in range(0, n, B):
        cols = start + tl.arange(0, B)
        y = tl.load(k + cols, mask=cols < n, other=0.0)
        total += tl.sum(tl.where(cols[None, :] < n, tl.cos(x[:, None] * y[None, :]), 0.0), axis=1)
    tl.store(out + rows, total, mask=rows < n)


def kernel(q, k):
    n = q.shape[0]
    block = min(16, n)
    out = torch.empty_like(q)
    waves[(triton.cdiv(n, block),)](q, k, out, n, B=block)
    return out
"""


@pytest.mark.slow
def test_a_capped_block_of_rows_and_of_a_trip_becomes_two_parameters(is_right):
    (first,) = variants(Retile(), BOTH_WAYS, n=4096)
    (line,) = (line for line in first.splitlines() if line.startswith("def kernel"))
    assert "B=" in line
    assert "B_STEP=" in line
    assert "block = B if B <= n else min(16, n)" in first
    assert "B_STEP=B_STEP if B_STEP <= n else min(16, n)" in first
    assert is_right(first, BOTH_WAYS, n=96)


GROUPS = """
@triton.jit
def scaled(x_ptr, s_ptr, y_ptr, M, N, G, BM: tl.constexpr, BN: tl.constexpr):
    across = tl.cdiv(N, BN)
    pid = tl.program_id(0)
    rows = (pid // across) * BM + tl.arange(0, BM)
    at = pid % across
    cols = at * BN + tl.arange(0, BN)
    s = tl.load(s_ptr + at // (G // BN))
    x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=rows[:, None] < M, other=0.0)
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], x * s, mask=rows[:, None] < M)


def kernel(x, s, group=128):
    M, N = x.shape
    y = torch.empty_like(x)
    grid = lambda meta: (triton.cdiv(M, meta["BM"]) * triton.cdiv(N, meta["BN"]),)
    scaled[grid](x, s, y, M, N, group, BM=8, BN=16)
    return y
"""


def test_blocks_without_masks_divide_what_a_flat_grid_and_groups_say():
    """The blocks of a flat grid walk over N, and as many as divide a group share its scale."""
    (variant,) = variants(Retile(), GROUPS, M=64, N=512)
    assert "if group % BN != 0 or N % BN != 0:\n        BN = 16" in variant
    other = GROUPS.replace("triton.cdiv(N,", "triton.cdiv(N + 1,")
    (variant,) = variants(Retile(), other, M=64, N=512)
    assert "BN = 16" not in variant
    assert "BN=16" in variant


COUNTED_GROUPS = """
GROUP = 64


@triton.jit
def product(x_ptr, w_ptr, s_ptr, y_ptr, N, K, G: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros([BN], tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        group = (i * BK) // G
        s = tl.load(s_ptr + group * N + n, mask=n < N, other=0.0)
        at = i * BK + k
        x = tl.load(x_ptr + at, mask=at < K, other=0.0)
        here = (n < N)[:, None] & (at < K)[None, :]
        w = tl.load(w_ptr + n[:, None] * K + at[None, :], mask=here, other=0.0)
        total += tl.sum(w * x[None, :], axis=1) * s
    tl.store(y_ptr + n, total, mask=n < N)


def kernel(x, w, s):
    N, K = w.shape
    y = torch.empty(N, device=x.device)
    product[(triton.cdiv(N, 16),)](x, w, s, y, N, K, G=GROUP, BN=16, BK=32)
    return y
"""


@pytest.mark.parametrize(
    ("place", "other"),
    [
        ("(i * BK) // G", "(i * BK) // G"),
        ("(i * BK) // G", "i * BK // G + i * BK % G * 0"),
        ("i * BK + k", "k + i * BK"),
    ],
)
def test_a_trip_is_no_longer_than_the_group_that_its_first_element_has(place, other):
    """Trips may be counted: 64 elements share a scale, so no trip takes 128."""
    (variant,) = variants(Retile(), COUNTED_GROUPS.replace(place, other), M=64, N=512, K=512)
    (line,) = (line for line in variant.splitlines() if '"BK":' in line)
    sizes = ast.literal_eval("{" + line.strip() + "}")["BK"]
    assert 64 in sizes
    assert max(sizes) == 64


def test_groups_whose_size_only_the_launcher_knows_keep_the_files_trip():
    source = COUNTED_GROUPS.replace("s):\n", "s, group=64):\n").replace("G=GROUP", "G=group")
    (variant,) = variants(Retile(), source, M=64, N=512, K=512)
    assert "if group % BK != 0:\n        BK = 32" in variant


def test_elements_with_quotients_of_their_own_share_no_group():
    """An index of each element is right for any trip."""
    own = (
        COUNTED_GROUPS.replace("(i * BK) // G", "(i * BK + k[None, :]) // G")
        .replace("group * N + n, mask=n < N", "group * N + n[:, None], mask=(n < N)[:, None]")
        .replace("x[None, :], axis=1) * s", "x[None, :] * s, axis=1)")
    )
    runs = own.replace("+ k[None, :]", "+ 8 * tl.arange(0, BK // 8)[None, :]")
    for source in (own, runs):
        (variant,) = variants(Retile(), source, M=64, N=512, K=512)
        (line,) = (line for line in variant.splitlines() if '"BK":' in line)
        assert max(ast.literal_eval("{" + line.strip() + "}")["BK"]) > 64


FLAT = """
COUNTS, SPLIT = [3, 5], 4


@triton.jit
def scale(x, y, H, N, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    b = pid // H
    h = pid % H
    at = tl.arange(0, BLOCK)
    row = (b * H + h) * N
    tl.store(y + row + at, 2 * tl.load(x + row + at, mask=at < N), mask=at < N)


def kernel(x):
    y = torch.empty_like(x)
    B = FIRST
    H = SECOND
    scale[(B * H,)](x, y, H, x.shape[-1], BLOCK=64)
    return y
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("x.shape[0]", "x.shape[1]"),
        ("x.shape[0] * SPLIT", "SPLIT"),  # a number of the module's
        ("COUNTS.pop()", "COUNTS.pop()"),  # the same text, and other numbers
    ],
)
def test_axes_of_a_flat_grid_are_the_divisor_and_the_other_factor(first, second):
    text = parse_kernel(HEADER + FLAT.replace("FIRST", first).replace("SECOND", second))
    separated, name = separated_axes(text, text.single[0])
    assert f"{name}[(H, B)]" in separated.tree.code
