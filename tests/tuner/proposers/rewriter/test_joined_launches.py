"""Independent launches of one function that become one."""

from __future__ import annotations

import re

import pytest
from rewriting import HEADER, variants

from solkit.tuner.proposers.rewriter._proposer import undefined_names
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.joined_launches import JoinLaunches
from solkit.tuner.proposers.rewriter.program_order import Grouped

SHAPE = {"T": 37, "H": 24, "O": 40, "P": 40}
PRODUCTS = """
def reference(x, w, u, v, b):
    return x @ w.t(), (x @ u.t()) * 0.5 + b, x @ v.t()


def inputs(T=37, H=24, O=40, P=40, device="cuda"):
    sizes = (T, H), (O, H), (P, H), (O, H), (P,)
    return tuple(torch.randn(*size, device=device) for size in sizes)


@triton.jit
def linear(x, w, b, y, rows, out, width, scale, BT: tl.constexpr, BO: tl.constexpr):
    r = tl.program_id(0) * BT + tl.arange(0, BT)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    at = y + r[:, None] * out
    acc = tl.zeros((BT, BO), tl.float32)
    for h in range(0, width, 16):
        k = h + tl.arange(0, 16)
        xs = tl.load(x + r[:, None] * width + k, mask=(r[:, None] < rows) & (k < width), other=0)
        ws = tl.load(w + o * width + k[:, None], mask=(o < out) & (k[:, None] < width), other=0)
        acc = tl.dot(xs, ws, acc, input_precision="ieee")
    acc = acc * scale + tl.load(b + o, mask=o < out, other=0)
    tl.store(at + o, acc, mask=(r[:, None] < rows) & (o < out))


def project(x, w, b, scale):
    rows, width = x.shape
    out = w.shape[0]
    y = torch.empty((rows, out), device=x.device)
    linear[(triton.cdiv(rows, 16), triton.cdiv(out, 32))](
        x, w, b, y, rows, out, width, scale, BT=16, BO=32
    )
    return y.view(-1, out)


def kernel(x, w, u, v, b):
    zero = torch.zeros_like(b)
    one, two = project(x, w, zero, 1.0), project(x, u, b, 0.5)
    return one, two, project(x, v, zero, 1.0)
"""


def joined(source):
    plain = canonical_form(HEADER + source).removeprefix(HEADER)
    sources = variants(JoinLaunches(), plain, **SHAPE)
    assert all(undefined_names(one) <= undefined_names(HEADER + source) for one in sources)
    return sources


def test_products_of_one_input_are_one_launch():
    (one,) = joined(PRODUCTS)
    assert re.search(r"\(triton.cdiv\(rows\w*, 16\), triton.cdiv\(out\w*, 32\), 3\)", one)
    assert one.count("tl.dot(") == 2  # the original is for weights of other sizes


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{}, {"P": 24}, {"T": 1, "P": 72}, {"H": 7, "O": 1, "P": 1}])
def test_products_of_equal_and_of_other_sizes_are_right(is_right, sizes):
    (one,) = joined(PRODUCTS)
    assert is_right(one, PRODUCTS, **{**SHAPE, **sizes})


NAMED = PRODUCTS.replace("    r = tl.program_id(0)", "    i = tl.program_id(0)\n    r = i").replace(
    "    o = tl.program_id(1)", "    j = tl.program_id(1)\n    o = j"
)
FLAT = (
    NAMED.replace(
        "    i = tl.program_id(0)", "    p = tl.program_id(0)\n    i = p // tl.cdiv(out, BO)"
    )
    .replace("    j = tl.program_id(1)", "    j = p % tl.cdiv(out, BO)")
    .replace("(rows, 16), triton", "(rows, 16) * triton")
    .replace("(out, 32))](", "(out, 32),)](")
)


@pytest.mark.slow
@pytest.mark.parametrize("source", [NAMED, FLAT])
def test_tiles_of_joined_products_are_visited_in_patches(is_right, source):
    (one,) = joined(source)
    (patches,) = variants(Grouped(), one.removeprefix(HEADER), **SHAPE)
    assert "tl.swizzle2d(" in patches
    assert is_right(patches, source, **{**SHAPE, "T": 100, "O": 72, "P": 72})


STEPS = """
def reference(x, z):
    return x * 2.0 + 1.0, z * 3.0 + 2.0


def inputs(M=5, N=100, device="cuda"):
    return torch.randn(M, N, device=device), torch.randn(M, 2 * N, device=device)[:, ::2]


@triton.jit
def affine(x, y, row_stride, column_stride, n, scale, shift, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * row_stride + c * column_stride, mask=c < n)
    tl.store(y + row * n + c, v * scale + shift, mask=c < n)


def kernel(x, z):
    M, N = x.shape
    one = torch.empty((M, N), device=x.device)
    two = torch.empty((M, N), device=x.device)
    affine[(M,)](x, one, x.stride(0), x.stride(1), N, 2.0, 1.0, BLOCK=128)
    affine[(M,)](z, two, z.stride(0), z.stride(1), N, 3.0, 2.0, BLOCK=128)
    return one, two
"""
SECOND = "    affine[(M,)](z,"


def test_one_grid_needs_no_comparison():
    (one,) = joined(STEPS)
    assert "[(M, 2)](" in one
    assert "if " not in one
    assert one.count("@triton.jit") == 1


@pytest.mark.slow
@pytest.mark.parametrize("shape", [{}, {"M": 1, "N": 1}, {"M": 3, "N": 128}])
def test_tensors_strides_and_numbers_are_those_of_their_launch(is_right, shape):
    (one,) = joined(STEPS)
    assert is_right(one, STEPS, **{"M": 5, "N": 100, **shape})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("](z, two,", "](one, two,"),  # reads what the first wrote
        ("](z, two,", "](z, one,"),
        ("](z, two,", "](z, x,"),  # overwrites what the first reads
        ("](z, two,", "](z, z,"),  # an argument may be a view of another one
        ("](x, one,", "](x, z,"),
        ("](z, two,", "](one.view(M, N), two,"),
        (SECOND, f"    two = one.t()\n{SECOND}"),
        (SECOND, f"    w = one.view(-1)\n    z = w.view(M, N)\n{SECOND.replace('z,', 'w,')}"),
        (SECOND, f"    z = one[:]\n{SECOND}"),
        ("    two = torch.empty((M, N), device=x.device)", "    two = one"),
        ("    two = torch.empty((M, N), device=x.device)", "    two = torch.square(x)"),
        (SECOND, f"    z += one\n{SECOND}"),
        (SECOND, f"    x[0] = 0\n{SECOND}"),
        (SECOND, f"    x.zero_()\n{SECOND}"),
        (SECOND, f"    M = 2\n{SECOND}"),
        (SECOND, f"    if M > 2:\n        return one, one\n{SECOND}"),
        ("](z, two,", ", 2](z, two,"),
        (SECOND, "    affine[(M // 2,)](z,"),
        (SECOND, "    affine[(4,)](z,"),
        ("3.0, 2.0, BLOCK=128", "3.0, 2.0, BLOCK=256"),
        ("3.0, 2.0, BLOCK=128", "3.0, 2.0, BLOCK=128, num_warps=8"),
        ("2.0, 1.0, BLOCK=128", "2.0, None, BLOCK=128"),
        ("2.0, 1.0, BLOCK=128", "2.0, 1, BLOCK=128"),
        ("tl.arange(0, BLOCK)\n", "tl.program_id(1) + tl.arange(0, BLOCK)\n"),
        ("y + row * n + c, v", "tl.cast(y, tl.pointer_type(tl.float32)) + row * n + c, v"),
        ("y + row * n + c, v", "tl.where(scale > 2, x, y) + row * n + c, v"),
        ("row * n + c, v * scale + shift", "row * n + c + shift, v"),  # two that may be the pointer
        ("@triton.jit", '@triton.jit(do_not_specialize=["n"])'),
    ],
)
def test_launches_that_may_depend_or_differ_stay_apart(old, new):
    assert STEPS.count(old) == 1
    assert not joined(STEPS.replace(old, new))


def test_sizes_that_a_name_had_before_are_no_sizes_of_now():
    """Both grids read ``x.shape``, of two tensors."""
    first = "    M, N = x.shape\n"
    source = STEPS.replace(first, f"{first}    K = x.shape[0]\n    x = x[1:]\n    L = x.shape[0]\n")
    source = source.replace("affine[(M,)](x", "affine[(K,)](x")
    (one,) = joined(source.replace("affine[(M,)](z", "affine[(L,)](z"))
    assert "if K == L:" in one


def test_tensors_of_equal_code_are_two():
    source = STEPS.replace("](x, one,", "](a, one,").replace("](z, two,", "](b, two,")
    source = source.replace(
        "    one = torch", "    a = x + 1\n    x.zero_()\n    b = x + 1\n    one = torch"
    )
    (one,) = joined(source)
    assert "x = tl.where(which == 0, x_1, x_2)" in one


def test_other_launches_between_keep_groups_apart():
    other = STEPS[STEPS.index("@triton.jit") : STEPS.index("def kernel")].replace(
        "affine", "scaled"
    )
    source = STEPS.replace("def kernel", f"{other.replace('+ shift', '- shift')}def kernel")
    third = "    three = torch.empty((M, N), device=x.device)\n"
    third += "    scaled[(M,)](z, three, z.stride(0), z.stride(1), N, 3.0, 2.0, BLOCK=128)\n"
    assert not joined(source.replace(SECOND, third + SECOND))
    pair = third.replace("three", "four") + third
    (one,) = joined(source.replace("    return one", f"{pair}    return one"))
    assert one.count("[(M, 2)](") == 2
