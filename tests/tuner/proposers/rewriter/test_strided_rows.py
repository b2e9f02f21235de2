"""Reductions along an axis that is not the last, and what a program names and branches on."""

import pytest
from rewriting import FEW_SMS, HEADER, variants

from solkit.tuner.proposers.rewriter._edit import Parameter, lifted_axis
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.flat_index import Unflatten
from solkit.tuner.proposers.rewriter.row_tiles import Rows
from solkit.tuner.proposers.rewriter.vectorise import Vectorise

PLACES = """
def reference(x):
    return torch.argmin(x, 1).to(torch.int32)


def inputs(N=3, R=19, M=21, device="cuda"):
    return (torch.rand(N, R, M, device=device),)


@triton.jit
def places(x, y, N, R, M, B: tl.constexpr):
    pid = tl.program_id(0)
    if pid >= N * M:
        return
    first = (pid // M) * R * M + pid % M
    best = float("inf")
    at = tl.full((), 0, tl.int32)
    for start in range(0, R, B):
        r = start + tl.arange(0, B)
        v = tl.load(x + first + r * M, mask=r < R, other=float("inf"))
        low = tl.min(v, axis=0)
        at = tl.where(low < best, tl.argmin(v, axis=0) + start, at)
        best = tl.minimum(low, best)
    tl.store(y + pid, at)


def kernel(x):
    N, R, M = x.shape
    y = torch.empty(N, M, dtype=torch.int32, device=x.device)
    places[(N * M,)](x, y, N, R, M, B=16)
    return y
"""
SIZES = {"N": 3, "R": 19, "M": 21}


def test_rows_of_one_quotient_follow_each_other_in_memory(is_right):
    text = parse_kernel(HEADER + PLACES)
    assert text is not None
    variant = lifted_axis(text, text.launches[0], 0, Parameter("ROWS", 8, (4, 8)), "M")

    assert "first = pid_group * R * M + pid_member" in variant  # no remainder hides neighbours
    assert "tl.full((ROWS,), 0, tl.int32)" in variant  # places stay integers
    assert is_right(variant, PLACES, **SIZES)


@pytest.mark.parametrize(
    ("first", "block", "rows"),
    [
        ("(pid // M) * R * M + pid % M", "r * M", 4),  # neighbours, as far as groups are known
        ("pid", "r * M", 32),
        ("pid * R", "r", 4),
        ("pid * 2", "r * M", 4),
    ],
)
def test_a_program_takes_a_line_of_rows_where_rows_are_neighbours(first, block, rows):
    source = PLACES.replace("(pid // M) * R * M + pid % M", first).replace("r * M,", f"{block},")
    (variant,) = variants(Rows(), source, **SIZES)
    assert f"ROWS={rows}" in variant


def test_what_is_no_number_keeps_its_type_with_several_rows():
    source = PLACES.replace("tl.full((), 0, tl.int32)", "N - N")
    (variant,) = variants(Rows(), source, **SIZES)
    assert "at = (N - N) + tl.zeros((ROWS,), tl.int1)" in variant


DOTS = """
def reference(a, b):
    return (a * b).sum(1)


def inputs(N=40, D=21, device="cuda"):
    return torch.randn(N, D, device=device), torch.randn(N, D, device=device)


@triton.jit
def dots(a, b, y, N, D, B: tl.constexpr):
    row = tl.program_id(0) * B + tl.arange(0, B)
    inside = row < N
    total = tl.zeros([B], tl.float32)
    for d in range(D):
        d_mask = inside
        total += tl.load(a + row * D + d, mask=d_mask) * tl.load(b + row * D + d, mask=d_mask)
    tl.store(y + row, total, mask=inside)


def kernel(a, b):
    y = torch.empty(a.shape[0], device=a.device)
    dots[(triton.cdiv(a.shape[0], 16),)](a, b, y, *a.shape, B=16)
    return y
"""


def test_a_loops_mask_gets_a_name_that_its_trips_do_not_have(is_right):
    source = DOTS.replace("*a.shape", "a.shape[0], a.shape[1]")
    (variant,) = variants(Vectorise(), source, device=FEW_SMS, N=40, D=21)
    assert "d_mask_2 = d < D" in variant
    assert is_right(variant, source, N=40, D=21)


TAPS = """
def reference(x, w, b):
    y = torch.nn.functional.conv2d(x[:, None], w[None, None], b, padding=1)[:, 0]
    return torch.relu(y)


def inputs(N=2, H=9, W=21, device="cuda"):
    return (torch.randn(N, H, W, device=device), torch.randn(3, 3, device=device),
            torch.randn(1, device=device))


@triton.jit
def taps(x, w, b, y, H, W, n, BIAS: tl.constexpr, B: tl.constexpr):
    plane = tl.program_id(0)
    o = tl.program_id(1) * B + tl.arange(0, B)
    inside = o < n
    row = o // W
    col = o % W
    total = tl.zeros([B], tl.float32)
    for i in range(3):
        for j in tl.static_range(3):
            r = row + i - 1
            c = col + j - 1
            ok = inside & (r >= 0) & (r < H) & (c >= 0) & (c < W)
            v = tl.load(x + plane * n + r * W + c, mask=ok, other=0.0)
            total += v * tl.load(w + i * 3 + j)
    if BIAS:
        total += tl.load(b)
    tl.store(y + plane * n + o, tl.maximum(total, 0.0), mask=inside)


def kernel(x, w, b):
    N, H, W = x.shape
    y = torch.empty_like(x)
    grid = (N, triton.cdiv(H * W, 32))
    taps[grid](x, w, b, y, H, W, H * W, BIAS=b is not None, B=32)
    return y
"""
PLANES = {"N": 2, "H": 9, "W": 21}


def test_taps_of_a_flat_index_are_those_of_a_tile_with_long_rows():
    (variant,) = variants(Unflatten(), TAPS, **PLANES)
    assert "total = tl.zeros((BLOCK_R, BLOCK_C), tl.float32)" in variant
    assert "BLOCK_R=4, BLOCK_C=256" in variant


@pytest.mark.slow
def test_a_tile_of_taps_is_right(is_right):
    (variant,) = variants(Unflatten(), TAPS, **PLANES)
    assert is_right(variant, TAPS, **PLANES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    if BIAS:", "    if tl.sum(o) > 0:"),
        (
            "    if BIAS:\n        total +=",
            "    if BIAS:\n        return\n    else:\n        total +=",
        ),
        ("    if BIAS:", "    if o > 3:"),
        ("    if BIAS:", "    if tl.load(b) > 0:"),
    ],
    ids=["sum", "return", "index", "data"],
)
def test_other_branches_keep_a_flat_index(old, new):
    assert old in TAPS
    assert not variants(Unflatten(), TAPS.replace(old, new), **PLANES)


TOTALS = """
def reference(x):
    return x.sum((1, 2)) * 2 if PER == 1 else x.sum(2).flatten() * 2


PER = 1


def inputs(N=5, device="cuda"):
    return torch.rand(N, 8, 4, device=device)


@triton.jit
def totals(x, y, PER: tl.constexpr, A: tl.constexpr):
    pid = tl.program_id(0)
    v = tl.load(x + pid * A * 4 + tl.arange(0, A)[:, None] * 4 + tl.arange(0, 4)[None, :])
    if PER == 1:
        total = tl.sum(v)
    else:
        total = tl.sum(v, axis=1)
    total *= 2.0
    if PER == 1:
        tl.store(y + pid, total.to(v.dtype))
    else:
        tl.store(y + pid * A + tl.arange(0, A), total.to(v.dtype))


def kernel(x):
    y = torch.empty(x.shape[0] * (1 if PER == 1 else 8), device=x.device)
    totals[(x.shape[0],)](x, y, PER=PER, A=8)
    return y
"""


@pytest.mark.parametrize("per", [1, 8])
def test_sides_of_a_constant_may_leave_blocks_of_other_axes(per, is_right):
    source = TOTALS.replace("PER = 1\n", f"PER = {per}\n")
    (variant,) = variants(Rows(), source, N=5)
    assert "tl.sum(tl.sum(v, axis=2), axis=1)" in variant  # of all axes but that of rows
    assert is_right(variant, source, N=5)


def test_places_among_all_elements_keep_one_row_a_program():
    assert not variants(Rows(), TOTALS.replace("tl.sum(v)", "tl.argmax(v)"), N=5)


SHIFTS = """
REACH = 2


def reference(x, y):
    wide = torch.nn.functional.pad(y, (REACH, REACH))
    N = x.shape[-1]
    return torch.stack([(x * wide[..., d : d + N]).sum(1) for d in range(2 * REACH + 1)], 1)


def inputs(B=2, C=3, N=20, device="cuda"):
    return torch.randn(B, C, N, device=device), torch.randn(B, C, N, device=device)


@triton.jit
def shifts(x, y, out, N, C: tl.constexpr, R: tl.constexpr, BLOCK: tl.constexpr):
    D: tl.constexpr = 2 * R + 1
    chunks = (N + BLOCK - 1) // BLOCK
    pid = tl.program_id(0)
    chunk = pid % chunks
    d = (pid // chunks) % D
    b = pid // (chunks * D)
    at = chunk * BLOCK + tl.arange(0, BLOCK)
    there = at + d - R
    total = tl.zeros([BLOCK], tl.float32)
    for c in range(C):
        one = tl.load(x + (b * C + c) * N + at, mask=at < N, other=0.0)
        two = tl.load(y + (b * C + c) * N + there, mask=(there >= 0) & (there < N), other=0.0)
        total += one * two
    tl.store(out + (b * D + d) * N + at, total, mask=at < N)


def kernel(x, y):
    B, C, N = x.shape
    D = 2 * REACH + 1
    out = torch.empty(B, D, N, device=x.device)
    shifts[(B * D * triton.cdiv(N, 16),)](x, y, out, N, C=C, R=REACH, BLOCK=16)
    return out
"""


def test_an_index_within_a_flat_grid_has_several_rows_too(is_right):
    (variant, _) = variants(Rows(), SHIFTS, B=2, C=3, N=20)
    assert "d = tl.program_id(1) * ROWS + tl.arange(0, ROWS)" in variant
    assert "if (2 * REACH + 1) <= 65535 and B <= 65535:" in variant  # as many as a GPU starts
    assert is_right(variant, SHIFTS, B=2, C=3, N=20)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("D = 2 * REACH + 1", "D = 2 * REACH + 2"),  # another number of quotients
        ("triton.cdiv(N, 16)", "triton.cdiv(N, 8)"),
        ("    D = 2 * REACH", "    REACH = 2\n    REACH = 3\n    D = 2 * REACH"),  # of which time?
    ],
)
def test_an_index_by_another_size_than_the_grids_stays(old, new):
    results = variants(Rows(), SHIFTS.replace(old, new), B=2, C=3, N=20)
    assert not any("d = tl.program_id(1) * ROWS" in result for result in results)
