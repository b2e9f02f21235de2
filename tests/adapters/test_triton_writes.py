"""Which parameters a kernel may write to: those that its source stores through."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import tma

from solkit.adapters.triton_writes import loads_from, may_write


@triton.jit
def helper(into, value):
    tl.store(into, value)


@triton.jit
def plain(index, x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(index + at, at < n)
    tl.store(out + row, tl.load(x + at, at < n), at < n)


@triton.jit
def renamed(index, x, out):
    target = out if tl.program_id(0) > 0 else x
    target += tl.load(index)
    tl.atomic_add(target, 1)


@triton.jit
def handed_on(index, x, out):
    helper(out + tl.load(index), tl.load(x))


@triton.jit
def by_descriptor(index, x, out):
    desc = tl.make_tensor_descriptor(out, [64], [1], [64])
    desc.store([tl.load(index)], tl.load(x + tl.arange(0, 64)))


@triton.jit
def opaque(index, x, out):
    args = [out, index + x]
    tl.inline_asm_elementwise("st.global.u32 [$1], $2;", "=r,l,r", args, tl.int32, True, 1)


@gluon.jit
def by_tma(index, x, out, tile):
    tma.async_copy_shared_to_global(out, [gl.load(index) + gl.load(x)], tile)


@gluon.jit
def by_a_partition(index, x, out):
    gl.warp_specialize([(by_tma, (index, x, out)), (helper, (out, gl.load(x)))], [1], [24])


@pytest.mark.parametrize(
    ("kernel", "written"),
    [
        (plain, {"out"}),
        (renamed, {"x", "out"}),
        (handed_on, {"out"}),
        (by_descriptor, {"out"}),
        (opaque, {"index", "x", "out"}),
        (by_tma, {"out"}),
        (by_a_partition, {"index", "x", "out"}),
    ],
)
def test_what_a_kernel_may_write_to(kernel, written):
    assert {name for name in ("index", "x", "out") if may_write(kernel, name)} == written


def test_what_is_no_kernel_may_write_to_anything():
    assert may_write(len, "x")


@triton.jit
def load_of(pointer, at):
    return tl.load(pointer + at)


@triton.jit
def in_place(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    places = x + at
    tl.store(places, load_of(places, 0) * 2, at < n)
    tl.store(out + at, 1, at < n)


@pytest.mark.parametrize(
    ("kernel", "loaded"),
    [
        (plain, {"index", "x"}),
        (renamed, {"index"}),
        (handed_on, {"index", "x"}),
        (in_place, {"x"}),
        (by_tma, {"index", "x"}),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_kernel_loads_from_the_parameters_that_its_source_loads_through(kernel, loaded):
    pointers = {"index", "x", "out"} & set(kernel.arg_names)
    assert {name for name in pointers if loads_from(kernel, name)} == loaded
