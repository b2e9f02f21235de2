"""Kernels in which a block, a copy or a row is part of what they compute: it stays."""

import re

import pytest
from rewriting import variants

from solkit.tuner.proposers.rewriter.fusion import FuseLaunches
from solkit.tuner.proposers.rewriter.program_fusion import FusePrograms
from solkit.tuner.proposers.rewriter.tile_constants import Constants, Retile

WHOLE_BLOCKS = """
def reference(x):
    return x * 2

def inputs(N=4096, device="cuda"):
    return (torch.randn(N, device=device),)

@triton.jit
def twice(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) * 2)

def kernel(x):
    out = torch.empty_like(x)
    twice[(x.numel() // 64,)](x, out, BLOCK=64)
    return out
"""


def test_a_size_that_is_called_stays_a_call_in_its_guard(is_right):
    """The number of elements that blocks walk over is what the method returns."""
    (variant,) = variants(Retile(), WHOLE_BLOCKS, N=4096)
    assert "if x.numel() % BLOCK != 0" in variant
    assert is_right(variant, WHOLE_BLOCKS, N=4096)


@pytest.mark.parametrize("size", ["(x.numel() + 64 - 1) // 64", "((x.numel()) // 64)"])
def test_sizes_are_read_whatever_their_brackets(size):
    (variant,) = variants(Retile(), WHOLE_BLOCKS.replace("x.numel() // 64", size), N=4096)
    assert re.search(r"if \(?x.numel\(\)\)? % BLOCK != 0", variant)


def block_values(source):
    return [re.findall(r'"BLOCK": ', v) for v in variants(Constants(), source, N=4096)]


@pytest.mark.parametrize(
    "value",
    ["x / (1 + tl.sum(x))", "tl.cumsum(x, axis=0)", "x - tl.max(x, axis=0)", "tl.sort(x)"],
)
def test_blocks_that_are_reduced_into_their_own_elements_keep_their_size(value):
    assert block_values(WHOLE_BLOCKS) == [['"BLOCK": ']]
    own = WHOLE_BLOCKS.replace("    tl.store", "    x = tl.load(x_ptr + at)\n    tl.store")
    assert block_values(own.replace("tl.load(x_ptr + at) * 2", value)) == [[]]


@pytest.mark.parametrize(
    "value",
    [
        "x + tl.program_id(0)",
        "tl.where(tl.arange(0, BLOCK) < 32, x, 0.0)",
        "x * tl.load(x_ptr + tl.program_id(0))",
        "x - tl.load(x_ptr + tl.program_id(0) * BLOCK)",
        "x * tl.load(x_ptr + tl.program_id(0) * BLOCK // 128)",
        "x - tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) // 2 * 2)",
    ],
)
def test_blocks_whose_numbers_or_places_are_values_keep_their_size(value):
    """The last is right for all sizes that 2 divides: it is not proven, and stays."""
    own = WHOLE_BLOCKS.replace("    tl.store", "    x = tl.load(x_ptr + at)\n    tl.store")
    assert block_values(own.replace("tl.load(x_ptr + at) * 2", value)) == [[]]


@pytest.mark.parametrize(
    "head",
    [
        "at = tl.arange(0, BLOCK) + BLOCK * tl.program_id(0)",
        "start = tl.program_id(0) * BLOCK\n    at = start + tl.arange(0, BLOCK)",
        "lanes = tl.arange(0, BLOCK)\n    at = (tl.program_id(0) * BLOCK + lanes).to(tl.int64)",
    ],
)
def test_blocks_may_change_however_their_indices_are_written(head):
    source = WHOLE_BLOCKS.replace("at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)", head)
    assert block_values(source) == [['"BLOCK": ']]


def test_blocks_that_are_added_to_a_sum_may_change():
    total = WHOLE_BLOCKS.replace(
        "tl.store(out_ptr + at, tl.load(x_ptr + at) * 2)",
        "tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + at)))",
    ).replace("torch.empty_like(x)", "torch.zeros(1, device=x.device)")
    assert block_values(total) == [['"BLOCK": ']]


THROUGH_INTEGERS = """
def reference(x):
    return (x * 1.5).to(x.dtype) * 0.5

def inputs(N=1000, device="cuda"):
    return (torch.randint(-50, 50, (N,), dtype=torch.int32, device=device),)

@triton.jit
def first(x_ptr, between_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(between_ptr + at, tl.load(x_ptr + at, mask=at < N) * 1.5, mask=at < N)

@triton.jit
def second(between_ptr, out_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(between_ptr + at, mask=at < N) * 0.5, mask=at < N)

def kernel(x):
    N = x.numel()
    between = torch.empty_like(x)
    out = torch.empty(x.shape, device=x.device)
    first[(triton.cdiv(N, 64),)](x, between, N, BLOCK=64)
    second[(triton.cdiv(N, 64),)](between, out, N, BLOCK=64)
    return out
"""


@pytest.mark.parametrize("rewrite", [FuseLaunches(), FusePrograms()])
def test_a_tensor_like_another_has_its_type(is_right, rewrite):
    """Memory keeps -73 of -49 * 1.5 = -73.5."""
    (variant,) = variants(rewrite, THROUGH_INTEGERS, N=1000)
    assert "between_ptr" not in variant
    assert "dtype.element_ty)" in variant
    assert is_right(variant, THROUGH_INTEGERS, N=1000)


@pytest.mark.parametrize("rewrite", [FuseLaunches(), FusePrograms()])
@pytest.mark.parametrize(
    ("allocation", "kept"),
    [
        ("torch.empty(x.shape, dtype=x.dtype, device=x.device)", "x_ptr.dtype.element_ty"),
        ("torch.empty(x.shape, dtype=torch.int16, device=x.device)", "tl.int16"),
        ("torch.empty_like(x.view(-1))", "x_ptr.dtype.element_ty"),
        ("torch.empty_like(x, dtype=torch.bool)", "tl.int1"),
        ("torch.empty(x.shape, dtype=torch.bfloat16, device=x.device)", ""),
        ("torch.empty(x.shape, device=x.device)", ""),
    ],
)
def test_types_of_what_stays_in_registers(rewrite, allocation, kept):
    source = THROUGH_INTEGERS.replace("torch.empty_like(x)", allocation)
    (variant,) = variants(rewrite, source, N=1000)
    assert re.findall(r"\.to\((.*?)\)", variant.split("def kernel")[0])[1:] == [kept] * bool(kept)


@pytest.mark.parametrize("rewrite", [FuseLaunches(), FusePrograms()])
def test_a_type_that_no_argument_has_stays_in_memory(rewrite):
    other = THROUGH_INTEGERS.replace("empty_like(x)", "empty_like(x.int())")
    assert variants(rewrite, other, N=1000) == []


WINDOWS = """
def reference(x):
    windows = torch.nn.functional.pad(x, (0, 32)).unfold(0, 64, 32)
    return (x.view(-1, 32) + windows.sum(1, keepdim=True)).view(-1)

def inputs(B=64, device="cuda"):
    return (torch.randn(B * 32, device=device),)

@triton.jit
def sums(x_ptr, sums_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * 32 + tl.arange(0, BLOCK)
    tl.store(sums_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + at, mask=at < N, other=0.0)))

@triton.jit
def add(x_ptr, sums_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * 32 + tl.arange(0, BLOCK)
    own = MASK
    total = tl.load(sums_ptr + tl.program_id(0))
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=own) + total, mask=own)

def kernel(x):
    x = x.clone()
    N = x.numel()
    totals = torch.empty(N // 32, device=x.device)
    sums[(N // 32,)](x, totals, N, BLOCK=64)
    add[(N // 32,)](x, totals, N, BLOCK=64)
    return x
"""


def test_a_window_that_reaches_into_what_another_program_writes_stays_apart():
    apart = WINDOWS.replace("MASK", "(at < N) & (tl.arange(0, BLOCK) < 32)")
    assert variants(FusePrograms(), apart, B=64) == []
    whole = WINDOWS.replace("MASK", "at < N").replace("* 32", "* BLOCK")
    assert len(variants(FusePrograms(), whole.replace("N // 32", "N // 64"), B=64)) == 1


VIEW_BETWEEN = """
def reference(x):
    return x * 1.5, x * 2

def inputs(N=1000, device="cuda"):
    return (torch.randn(N, device=device),)

@triton.jit
def first(x_ptr, between_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(between_ptr + at, tl.load(x_ptr + at, mask=at < N) * 1.5, mask=at < N)

@triton.jit
def double(x_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < N) * 2, mask=at < N)

@triton.jit
def copy(between_ptr, out_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(between_ptr + at, mask=at < N), mask=at < N)

def kernel(x):
    x = x.clone()
    N = x.numel()
    between = torch.empty_like(x)
    out = torch.empty_like(x)
    VIEW
    first[(triton.cdiv(N, 64),)](x, between, N, BLOCK=64)
    double[(triton.cdiv(N, 64),)](same, N, BLOCK=64)
    copy[(triton.cdiv(N, 64),)](between, out, N, BLOCK=64)
    return out, x
"""


@pytest.mark.parametrize(
    "view",
    ["same = x", "same = x.view(-1)", "same, rest = x, N", "same = torch.ravel(x)", "same = x[:]"],
)
def test_what_a_launch_between_writes_under_another_name_is_written(view):
    """The first reads what the second doubles: computed within the third, it would be 3 x."""
    assert variants(FuseLaunches(), VIEW_BETWEEN.replace("VIEW", view), N=1000) == []
    apart = VIEW_BETWEEN.replace("VIEW", "same = torch.zeros_like(x)")
    assert len(variants(FuseLaunches(), apart, N=1000)) == 1


PADDED = """
@triton.jit
def first(x_ptr, between_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.exp(tl.load(x_ptr + at, mask=at < N, other=0.0))
    tl.store(between_ptr + at, value, mask=at < N)

@triton.jit
def second(between_ptr, out_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.load(between_ptr + at)))

def kernel(x):
    N = x.numel()
    between = torch.zeros(triton.cdiv(N, 64) * 64, device=x.device)
    out = torch.empty(triton.cdiv(N, 64), device=x.device)
    first[(triton.cdiv(N, 64),)](x, between, N, BLOCK=64)
    second[(triton.cdiv(N, 64),)](between, out, N, BLOCK=64)
    return out
"""


def test_zeros_behind_what_the_first_writes_are_read_by_the_second():
    """Computed again, they would be exp(0)."""
    assert variants(FuseLaunches(), PADDED, N=1000) == []
    masked = PADDED.replace("between_ptr + at)", "between_ptr + at, mask=at < N, other=0.0)")
    assert len(variants(FuseLaunches(), masked, N=1000)) == 1
