"""Kernels whose launches are recorded: each reads its names in another way."""

import recorded_helpers
import recorded_helpers as others
import triton
import triton.language as tl
from recorded_helpers import scale as scaled

SCALE = tl.constexpr(2.0)
TEXT = tl.constexpr("{braces}")


@triton.jit
def scale(value):  # not the helper of that name
    return value * SCALE


@triton.jit
def modules_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    kind: tl.constexpr = others.wider(x_ptr.type.element_ty)
    x = tl.load(x_ptr + at, mask=at < n).to(kind).to(others.KIND)
    value = scale(x) + scaled(x) + recorded_helpers.twice(x)
    tl.static_assert(TEXT == "{braces}")
    tl.store(out_ptr + at, value, mask=at < n)


@triton.jit
def kernel(out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):  # the file has a `kernel` too
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out_ptr + at, tl.load(out_ptr + at) + 1)
    else:
        tl.store(out_ptr + at, tl.load(out_ptr + at, mask=at < n) + 1, mask=at < n)


warped_kernel = triton.heuristics({"num_warps": lambda args: 8 if args["BLOCK"] > 64 else 2})(
    kernel
)
even_kernel = triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})(kernel)


def closure(power):
    exponent = tl.constexpr(power)

    @triton.jit
    def powers(x_ptr, out_ptr, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x_ptr + at)
        for _ in tl.static_range(exponent):
            value = FUNCTION(value)
        tl.store(out_ptr + at, value)

    return powers


cubed = closure(3)


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((64, 2), (128, 4), (256, 8))],
    key=["n"],
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def listed_kernel(out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, at.to(tl.float32), mask=None if EVEN else at < n)


@triton.jit
def pointers_kernel(table_ptr, out_ptr):
    pointer = tl.load(table_ptr).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr, tl.load(pointer))


@triton.jit
def rows_kernel(x_ptr, y_ptr, index_ptr, stride, COLS: tl.constexpr):
    row = tl.load(index_ptr + tl.program_id(0))
    at = tl.arange(0, COLS)
    tl.store(y_ptr + tl.program_id(0) * stride + at, tl.load(x_ptr + row * stride + at))
