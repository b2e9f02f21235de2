"""The Triton kernels that measure a GPU's ceilings.

They are untyped, as Triton requires; upper-case arguments are compile-time constants.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["chunks", "passes"])
def read_kernel(source, sink, chunks, passes, CHUNK: tl.constexpr):
    """Read `passes` chunks per program, striding by the grid, around a buffer of `chunks`.

    The reads bypass L1 (``.cg``), so that repeated ones come from L2.
    """
    at = tl.arange(0, CHUNK)
    total = tl.zeros((CHUNK,), tl.float32)
    for step in range(passes):
        chunk = (tl.program_id(0) + step * tl.num_programs(0)) % chunks
        total += tl.load(source + chunk * CHUNK + at, cache_modifier=".cg")
    tl.store(sink + tl.program_id(0), tl.sum(total))


@triton.jit(do_not_specialize=["chunks", "passes"])
def write_kernel(target, value, chunks, passes, CHUNK: tl.constexpr):
    """Write `passes` chunks per program, striding by the grid, around a buffer of `chunks`."""
    at = tl.arange(0, CHUNK)
    data = tl.zeros((CHUNK,), tl.float32) + value
    for step in range(passes):
        chunk = (tl.program_id(0) + step * tl.num_programs(0)) % chunks
        tl.store(target + chunk * CHUNK + at, data + step)


@triton.jit(do_not_specialize=["chunks", "passes"])
def copy_kernel(source, target, chunks, passes, CHUNK: tl.constexpr):
    """Copy `passes` chunks per program, striding by the grid, around buffers of `chunks`."""
    at = tl.arange(0, CHUNK)
    for step in range(passes):
        chunk = (tl.program_id(0) + step * tl.num_programs(0)) % chunks
        data = tl.load(source + chunk * CHUNK + at, cache_modifier=".cg")
        tl.store(target + chunk * CHUNK + at, data)


@triton.jit(do_not_specialize=["loops"])
def alu_kernel(
    sink,
    loops,
    constant,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    FIRST_REGISTERS: tl.constexpr,
    SECOND_REGISTERS: tl.constexpr,
    FIRST_DTYPE: tl.constexpr,
    SECOND_DTYPE: tl.constexpr,
    PAIRS: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Run `loops` × `PAIRS` dependent pairs of instructions in each of `SIZE` chains a program."""
    at = tl.arange(0, SIZE)
    x = (at + 1).to(FIRST_DTYPE)
    y = (at + 2).to(SECOND_DTYPE)
    a = (tl.zeros((SIZE,), tl.float32) + constant).to(FIRST_DTYPE)
    b = (tl.zeros((SIZE,), tl.float32) - constant).to(SECOND_DTYPE)
    for _ in range(loops):
        for _ in tl.static_range(PAIRS):
            x = tl.inline_asm_elementwise(
                FIRST, FIRST_REGISTERS, [x, y, a], dtype=x.dtype, is_pure=True, pack=1
            )
            y = tl.inline_asm_elementwise(
                SECOND, SECOND_REGISTERS, [y, x, b], dtype=y.dtype, is_pure=True, pack=1
            )
    total = tl.sum(x.to(tl.float32)) + tl.sum(y.to(tl.float32))
    tl.store(sink + tl.program_id(0), total)


@triton.jit
def empty_kernel():
    """Do nothing."""


@triton.jit
def _cycles():
    return tl.inline_asm_elementwise(
        "mov.u64 $0, %clock64;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
    )


@triton.jit
def _nanoseconds():
    return tl.inline_asm_elementwise(
        "mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
    )


@triton.jit(do_not_specialize=["wait", "count"])
def spin_kernel(clock, wait, count):
    """Keep a warp busy for `wait` SM clock cycles, then for `count`; store the latter, and ns."""
    begin = _cycles()
    now = begin
    while now - begin < wait:
        now = _cycles()
    start_ns, start = _nanoseconds(), _cycles()
    now = start
    while now - start < count:
        now = _cycles()
    tl.store(clock + 1, _nanoseconds() - start_ns)
    tl.store(clock, now - start)
