"""Launches on one grid of which a program needs only what the same program wrote."""

from __future__ import annotations

import re

import pytest
from rewriting import HEADER, brief, rewritten, variants

from solkit.tuner.proposers.rewriter._mutation import Facts
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.one_pass import OnePass
from solkit.tuner.proposers.rewriter.program_fusion import FusePrograms
from solkit.tuner.proposers.rewriter.whole_row import WholeRow

SHAPE = {"M": 5, "N": 100}
THREE = """
def reference(x):
    return torch.softmax(x, -1)


def inputs(M=5, N=100, device="cuda"):
    return (torch.randn(M, N, device=device),)


@triton.jit
def row_max(x_ptr, max_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = -float("inf")
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        v = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf"))
        best = tl.maximum(best, tl.max(v, axis=0))
    tl.store(max_ptr + row, best)


@triton.jit
def row_exp(x_ptr, max_ptr, e_ptr, sum_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * n
    best = tl.load(max_ptr + row)
    total = 0.0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        e = tl.exp(tl.load(x_ptr + cols, mask=cols < n, other=-float("inf")) - best)
        total += tl.sum(e, axis=0)
        tl.store(e_ptr + row * n + cols, e, mask=cols < n)
    tl.store(sum_ptr + row, total)


@triton.jit
def row_divide(e_ptr, sum_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.load(sum_ptr + row)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        e = tl.load(e_ptr + row * n + cols, mask=cols < n)
        tl.store(y_ptr + row * n + cols, e / total, mask=cols < n)


def kernel(x):
    M, N = x.shape
    largest = torch.empty(M, device=x.device)
    total = torch.empty(M, device=x.device)
    e = torch.empty_like(x)
    y = torch.empty_like(x)
    row_max[(M,)](x, largest, N, BLOCK=32)
    row_exp[(M,)](x, largest, e, total, N, BLOCK=32)
    row_divide[(M,)](e, total, y, N, BLOCK=32)
    return y
"""


def merged(source):
    text = parse_kernel(canonical_form(HEADER + source))
    facts = Facts(brief(source, **SHAPE))
    return [variant.source for variant in FusePrograms().variants(text, facts)]


@pytest.mark.parametrize("sizes", ["x.shape", "x.shape[:2]"])
def test_three_launches_over_rows_are_one(sizes):
    (one,) = merged(THREE.replace("M, N = x.shape", f"M, N = {sizes}"))
    assert one.count("@triton.jit") == one.count("[(M,)]") == 1
    assert "max_ptr" not in one  # a row's maximum stays in the program
    assert "total = torch.empty" not in one
    assert "e_ptr" not in one  # the exponentials are computed again


def test_the_whole_row_then_stays_in_registers():
    (one,) = merged(THREE)
    (whole,) = variants(WholeRow(), one.removeprefix(HEADER), **SHAPE)
    own = whole[whole.index("_whole_row(") : whole.index("def kernel(")]
    assert (own.count("tl.load("), own.count("tl.store(")) == (1, 1)


@pytest.mark.slow
def test_one_launch_is_right(is_right):
    (one,) = merged(THREE)
    assert is_right(one, THREE, **SHAPE)
    (whole,) = variants(WholeRow(), one.removeprefix(HEADER), **SHAPE)
    assert is_right(whole, THREE, **SHAPE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tl.load(max_ptr + row)", "tl.load(max_ptr + row + 1)"),  # of another program
        ("tl.load(max_ptr + row)", "tl.load(max_ptr + tl.num_programs(0) - 1 - row)"),
        ("tl.load(e_ptr + row * n + cols,", "tl.load(e_ptr + row * n + n - 1 - cols,"),
        ("row_exp[(M,)]", "row_exp[(M + 0,)]"),  # what differs is not known to be the same
        ("tl.store(max_ptr + row, best)", "tl.atomic_max(max_ptr + row, best)"),
        ("    row_exp[(M,)]", "    largest += 1\n    row_exp[(M,)]"),
        ("    row_exp[(M,)]", "    torch.abs(largest, out=largest)\n    row_exp[(M,)]"),
    ],
)
def test_what_another_program_or_the_launcher_may_write_stays_apart(old, new):
    assert THREE.count(old) == 1
    results = merged(THREE.replace(old, new))
    assert all("row_max_row_exp_row_divide" not in one for one in results)


def test_an_input_may_not_change_before_other_programs_have_read_it():
    source = THREE.replace("row_divide[(M,)](e, total, y,", "row_divide[(M,)](e, total, x,")
    assert merged(source)  # each program writes the row that it read itself
    shifted = source.replace(
        "tl.load(x_ptr + row * n + cols,", "tl.load(x_ptr + (row + 1) % 5 * n + cols,"
    )
    assert all(
        "row_divide" not in name for one in merged(shifted) for name in [one.split("def ")[3]]
    )


@pytest.mark.parametrize(("apart", "count"), [("8", 0), ("16", 1), ("BLOCK", 1)])
def test_windows_that_overlap_are_cleared_after_all_programs_have_read_them(apart, count):
    source = """
@triton.jit
def sums(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * APART + tl.arange(0, BLOCK)
    tl.store(y_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + at), axis=0))


@triton.jit
def clear(x_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * APART + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.zeros([BLOCK], tl.float32))


def kernel(x):
    y = torch.empty(x.numel() // 16, device=x.device)
    sums[(x.numel() // 16,)](x, y, BLOCK=16)
    clear[(x.numel() // 16,)](x, BLOCK=16)
    return y, x
"""
    assert len(merged(source.replace("APART", apart))) == count


PASSES = """
def reference(x):
    return torch.topk(x, 2, -1).values


def inputs(M=5, N=100, device="cuda"):
    return (torch.randn(M, N, device=device),)


@triton.jit
def largest(x_ptr, seen_ptr, y_ptr, n, K: tl.constexpr, PASS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    limit = float("inf")
    if PASS > 0:
        limit = tl.load(seen_ptr + row * K + PASS - 1)
    best = -float("inf")
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        v = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf"))
        best = tl.maximum(best, tl.max(tl.where(v < limit, v, -float("inf")), axis=0))
    tl.store(y_ptr + row * K + PASS, best)


def kernel(x):
    M, N = x.shape
    y = torch.empty((M, 2), device=x.device)
    for p in range(2):
        largest[(M,)](x, y, y, N, K=2, PASS=p, BLOCK=32)
    return y
"""


@pytest.mark.slow
def test_passes_over_a_row_are_one_launch(is_right):
    (one,) = merged(PASSES)
    assert one.count("[(M,)]") == 1
    assert "seen_ptr + row * K + PASS_2 - 1" not in one  # the first pass's value is at hand
    assert is_right(one, PASSES, **SHAPE)


def test_places_that_another_row_may_reach_stay_apart():
    source = PASSES.replace("row * K + PASS - 1", "row * K + PASS + 1")
    assert not merged(source)


SCALED = """
@triton.jit
def at(p, i, n):
    if i >= n:
        return tl.load(p)
    return tl.load(p + i)


@triton.jit
def row_sum(x_ptr, sum_ptr, n, times, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
    tl.store(sum_ptr + row, tl.sum(v, axis=0) * times)


@triton.jit
def shift(x_ptr, sum_ptr, y_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    total = tl.load(sum_ptr + row)
    v = tl.load(x_ptr + row * n + cols, mask=cols < n)
    tl.store(y_ptr + row * n + cols, v + total, mask=cols < n)


def kernel(x):
    M, N = x.shape
    k, grid = 3, M
    total = torch.zeros(M, device=x.device)
    y = torch.empty_like(x)
    row_sum[(grid,)](x, total, N, k + 1, BLOCK=128)
    shift[(grid,)](x, total, y, N, BLOCK=128)
    return y
"""
SECOND = "    shift[(grid,)]"


def test_the_sum_of_a_row_is_kept():
    (one,) = merged(SCALED)
    assert "kept = tl.sum(v, axis=0) * times\n" in one
    assert "sum_ptr" not in one


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (SECOND, f"    k += 6\n{SECOND}"),  # what the first launch gets is another number behind it
        (SECOND, f"    grid //= 2\n{SECOND}"),
        (SECOND, f"    if M > 4:\n        return None\n{SECOND}"),
        (SECOND, f"    if M > 4:\n        raise ValueError(M)\n{SECOND}"),
        ("total = tl.load(sum_ptr + row)", "total = at(sum_ptr, row + 1, n)"),
        (
            "total = tl.load(sum_ptr + row)",
            "sums = tl.make_tensor_descriptor(sum_ptr, [n], [1], [1])\n"
            "    total = tl.sum(sums.load([(row + 1) % n]), axis=0)",
        ),
    ],
)
def test_launches_stay_apart_where_one_would_be_another_behind_what_is_between(old, new):
    assert SCALED.count(old) == 1
    assert not merged(SCALED.replace(old, new))


def test_a_value_that_only_some_programs_store_is_read_again():
    source = SCALED.replace("* times)", "* times, mask=row % 2 == 0)")
    (one,) = merged(source)
    assert "total = tl.load(sum_ptr + row)" in one


def test_a_value_of_the_same_mask_is_kept():
    source = SCALED.replace("* times)", "* times, mask=row < n)")
    source = source.replace("tl.load(sum_ptr + row)", "tl.load(sum_ptr + row, mask=row < n)")
    (one,) = merged(source)
    assert "sum_ptr" not in one


@pytest.mark.parametrize(
    ("kept", "kind"), [("", "tl.int32"), ("    total += 1\n", "sum_ptr.dtype.element_ty")]
)
def test_a_kept_value_is_of_its_tensors_type(kept, kind):
    source = SCALED.replace("torch.zeros(M,", "torch.zeros(M, dtype=torch.int32,")
    (one,) = merged(source.replace("    return y\n", f"{kept}    return y\n"))
    assert f"kept = (tl.sum(v, axis=0) * times).to({kind})" in one


@pytest.mark.parametrize(
    ("kind", "device_kind"),
    [("long", "int64"), ("int", "int32"), ("bool", "int1"), ("float8_e5m2", "float8e5")],
)
def test_a_type_has_the_name_that_triton_has_for_it(kind, device_kind):
    source = SCALED.replace("torch.zeros(M,", f"torch.zeros(M, dtype=torch.{kind},")
    (one,) = merged(source)
    assert f"kept = (tl.sum(v, axis=0) * times).to(tl.{device_kind})" in one


def test_values_of_a_type_that_nothing_tells_stay_in_memory():
    chosen = "torch.zeros(M, dtype=torch.int32 if M > 4 else torch.float32,"
    assert not merged(SCALED.replace("torch.zeros(M,", chosen))


def test_a_type_outlives_its_tensor_if_other_values_have_it():
    typed = "tl.sum(v, axis=0).to(sum_ptr.dtype.element_ty)"
    source = SCALED.replace("tl.sum(v, axis=0)", typed)
    (one,) = merged(source.replace("torch.zeros(M,", "torch.zeros(M, dtype=torch.float16,"))
    assert "sum_ptr" not in one
    assert "kept = tl.sum(v, axis=0).to(tl.float16) * times" in one


SWEPT = """
@triton.jit
def copy(x_ptr, y_ptr, n):
    row = tl.program_id(0)
    tl.store(y_ptr + row, tl.load(x_ptr + PLACE))


@triton.jit
def clear(x_ptr, n):
    row = tl.program_id(0)
    tl.store(x_ptr + PLACE, 0.0)


def kernel(x):
    y = torch.empty_like(x)
    copy[(x.numel(),)](x, y, 5)
    clear[(x.numel(),)](x, 5)
    return y
"""


@pytest.mark.parametrize(
    ("place", "count"),
    [("row", 1), ("row // n * n + row % n", 1), ("row // 2", 0), ("row % n", 0)],
)
def test_programs_that_share_a_place_clear_it_behind_all_reads(place, count):
    assert len(merged(SWEPT.replace("PLACE", place))) == count


PAIR = """
@triton.jit
def double(x_ptr, y_ptr, m, n, stride, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < m) & (cols[None, :] < n)
    v = tl.load(x_ptr + rows[:, None] * n + cols[None, :], mask=inside)
    tl.store(y_ptr + rows[:, None] * stride + cols[None, :], v + v, mask=inside)


@triton.jit
def add(y_ptr, z_ptr, out_ptr, m, n, stride, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < m) & (cols[None, :] < n)
    y = tl.load(y_ptr + rows[:, None] * stride + cols[None, :], mask=inside & (cols[None, :] > 0))
    z = tl.load(z_ptr + rows[:, None] * n + cols[None, :], mask=inside)
    tl.store(out_ptr + rows[:, None] * n + cols[None, :], y + z, mask=inside)


def kernel(x, z):
    M, N = x.shape
    y = torch.empty((M, N), device=x.device, dtype=torch.float32)
    out = torch.empty_like(z)
    double[(triton.cdiv(M, 16), triton.cdiv(N, 16))](x, y, M, N, y.stride(0), BLOCK=16)
    rows, columns = z.shape
    add[(triton.cdiv(rows, 16), triton.cdiv(columns, 16))](y, z, out, rows, columns, N, BLOCK=16)
    return out
"""


def test_sizes_of_two_tensors_are_compared_by_the_launcher():
    (one,) = merged(PAIR)
    before, after = one.split("    if rows == M and columns == N:\n")
    fused, original = after.split("    else:\n")
    assert "y" not in fused.replace(",", " ").split()
    assert "y = torch.empty" not in before
    assert "y = torch.empty" in original
    assert original.index("double[") < original.index("add[")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mask=inside & (cols[None, :] > 0))", "mask=cols[None, :] < n)"),
        ("mask=inside & (cols[None, :] > 0))", ")"),
        ("out, rows, columns, N,", "out, rows, columns, z.stride(0),"),
        ("columns = z.shape", "columns = z.shape\n    y = y.t()"),
    ],
)
def test_what_more_programs_may_read_stays_in_memory(old, new):
    assert PAIR.count(old) == 1
    assert not merged(PAIR.replace(old, new))


SCALES = """
def reference(x):
    scale = x.abs().amax(-1) / 127
    return (x / scale[:, None]).round(), scale


def inputs(M=5, N=100, device="cuda"):
    return (torch.randn(M, N, device=device),)


@triton.jit
def largest(x_ptr, scale_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = 0.0
    for i in range(0, tl.cdiv(n, BLOCK)):
        cols = i * BLOCK + tl.arange(0, BLOCK)
        best = tl.maximum(best, tl.max(tl.abs(tl.load(x_ptr + row * n + cols, mask=cols < n))))
    tl.store(scale_ptr + row, best / 127)


@triton.jit
def divide(x_ptr, scale_ptr, q_ptr, n, total, SIZE: tl.constexpr):
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    mask = i < total
    scale = tl.load(scale_ptr + i // n, mask=mask, other=1.0)
    ratio = tl.load(x_ptr + i, mask=mask, other=0.0) / scale
    tl.store(q_ptr + i, tl.floor(ratio + 0.5), mask=mask)


def kernel(x):
    M, N = x.shape
    scale = torch.empty(M, device=x.device)
    q = torch.empty_like(x)
    largest[(M,)](x, scale, N, BLOCK=32)
    divide[(triton.cdiv(x.numel(), 64),)](x, scale, q, N, x.numel(), SIZE=64)
    return q, scale
""".replace("mask=cols < n)))", "mask=cols < n, other=0.0)))")
OF_COLUMNS = SCALES.replace(
    "i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)\n    mask = i < total",
    "j = tl.program_id(0) * SIZE + tl.arange(0, SIZE)\n    mask = j < n\n"
    "    i = tl.program_id(1) * n + j",
)
OF_COLUMNS = OF_COLUMNS.replace("i // n, mask=mask, other=1.0", "tl.program_id(1)").replace(
    "(triton.cdiv(x.numel(), 64),)", "(triton.cdiv(N, 64), M)"
)


@pytest.mark.parametrize("source", [SCALES, OF_COLUMNS])
def test_what_follows_a_row_s_statistics_takes_rows_as_well(is_right, source):
    (variant,) = merged(source)
    assert variant.count("[(M,)](") == 1
    facts = Facts(brief(source, **SHAPE))
    (whole,) = WholeRow().variants(parse_kernel(variant), facts)
    assert whole.source.split("_whole_row(")[1].split("def kernel")[0].count("tl.load(") == 1
    assert is_right(whole.source, source, **SHAPE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i // n,", "i // n * 2,"),  # of another row
        ("N, x.numel()", "N, N"),  # no element of the other rows
        ("M, N = x.shape", "M, N = x.shape[0], 4"),
        ("mask = i < total", "mask = i < total - 1"),
        ("SIZE=64", "SIZE=32"),
        ("x_ptr + i, mask", "q_ptr + i // n * n + n - 1 - i % n, mask"),  # in place, backwards
        ("ratio + 0.5", "tl.cumsum(ratio, axis=0)"),  # of a block that would be another
    ],
)
def test_elements_that_are_not_all_of_a_row_stay_apart(old, new):
    assert SCALES.count(old) == 1
    assert not merged(SCALES.replace(old, new))


# ------------------------------------------------------------ rows between two loops

DIVERGENCE = """
def reference(a, b):
    p, q = torch.log_softmax(a / 2, -1), torch.log_softmax(b / 2, -1)
    return (p.exp() * (p - q)).sum(-1)


def inputs(M=5, N=100, device="cuda"):
    return torch.randn(M, N, device=device), torch.randn(M, N, device=device)


@triton.jit
def log_softmax(x_ptr, y_ptr, scale, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = -float("inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf")) * scale
        new = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), axis=0)
        top = new
    norm = top + tl.log(total)
    step = 0.0
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + cols, mask=cols < n) * scale
        step += 1.0
        tl.store(y_ptr + row * n + cols, x - norm, mask=cols < n)


@triton.jit
def divergence(p_ptr, q_ptr, a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        p = tl.load(p_ptr + row * n + cols, mask=cols < n, other=0.0)
        q = tl.load(q_ptr + row * n + cols, mask=cols < n, other=0.0)
        total += tl.exp(p) * (p - q)
    tl.store(out_ptr + row, tl.sum(total, axis=0))


def kernel(a, b):
    M, N = a.shape
    p = torch.empty((M, N), device=a.device, dtype=torch.float32)
    q = torch.empty((M, N), device=a.device, dtype=torch.float32)
    out = torch.empty(M, device=a.device, dtype=torch.float32)
    log_softmax[(M,)](a, p, 0.5, N, BLOCK=32)
    log_softmax[(M,)](b, q, 0.5, N, BLOCK=32)
    divergence[(M,)](p, q, a, out, N, BLOCK=32)
    return out
"""


@pytest.mark.parametrize("update", ["+= tl.exp(p) * (p - q)", "-= tl.exp(p) * (q - p)"])
def test_a_divergence_of_two_rows_reads_each_once(is_right, update):
    (one,) = merged(DIVERGENCE.replace("+= tl.exp(p) * (p - q)", update))
    (once,) = OnePass().variants(parse_kernel(one), Facts(brief(DIVERGENCE, **SHAPE)))
    device = once.source.split("def kernel(")[0].split("@triton.jit")[1]
    assert [device.count(name) for name in ("tl.load(", "tl.store(", "for ")] == [2, 1, 1]
    (difference,) = re.findall(r"\* \((.*)\), 0\.0\), axis=0\)", device)  # may be of 16 bits
    assert difference.count(").to(tl.float32)") == 2
    assert is_right(once.source, DIVERGENCE, **SHAPE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    return out", "    return out, p, q"),  # also results
        ("x - norm,", "x - norm + step,"),  # what a trip takes from the one before
        ("tl.store(out_ptr", "tl.store(a_ptr + row * n, 0.0)\n    tl.store(out_ptr"),
        ("x - norm,", "norm,"),  # no block
        ("cols, mask=cols < n, other=0.0)", "cols, mask=cols < n + 1, other=0.0)"),
    ],
)
def test_rows_that_cannot_be_computed_again_go_through_memory(old, new):
    assert old in DIVERGENCE
    for one in merged(DIVERGENCE.replace(old, new)):
        assert "tl.store(y_ptr" in one


TWO_LAUNCHES = """
def reference(x):
    return x.mean(1), x.var(1, correction=0)


def inputs(M=9, N=100, device="cuda"):
    return (torch.randn(M, N, device=device) + 100,)


@triton.jit
def means(x_ptr, mean_ptr, size, BLOCK: tl.constexpr):
    total = 0.0
    for i in range(0, size, BLOCK):
        at = i + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + tl.program_id(0) * size + at, mask=at < size, other=0.0))
    tl.store(mean_ptr + tl.program_id(0), total / size)


@triton.jit
def variances(x_ptr, mean_ptr, var_ptr, size, BLOCK: tl.constexpr):
    mean = tl.load(mean_ptr + tl.program_id(0))
    total = 0.0
    for i in range(0, size, BLOCK):
        at = i + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + tl.program_id(0) * size + at, mask=at < size, other=0.0)
        off = tl.where(at < size, x - mean, 0.0)
        total += tl.sum(off * off)
    tl.store(var_ptr + tl.program_id(0), total / size)


def kernel(x):
    M, N = x.shape
    mean = torch.empty(M, device=x.device, dtype=torch.float32)
    var = torch.empty(M, device=x.device, dtype=torch.float32)
    means[(M,)](x, mean, N, BLOCK=32)
    variances[(M,)](x, mean, var, N, BLOCK=32)
    return mean, var
"""


def test_means_and_moments_of_two_launches_take_one_pass(is_right):
    joined = rewritten(FusePrograms(), TWO_LAUNCHES)
    (variant,) = variants(OnePass(), joined, M=9, N=100)
    assert variant.count("    for i") == 1
    assert is_right(variant, TWO_LAUNCHES, M=9, N=100)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.float32)\n    var", "torch.float16)\n    var"),  # the mean is rounded
        (
            "total / size)\n\n\n@triton.jit\ndef var",
            "total / size + total)\n\n\n@triton.jit\ndef var",
        ),
    ],
)
def test_other_means_keep_both_passes(old, new):
    assert TWO_LAUNCHES.count(old) == 1
    joined = rewritten(FusePrograms(), TWO_LAUNCHES.replace(old, new))
    assert not variants(OnePass(), joined, M=9, N=100)
