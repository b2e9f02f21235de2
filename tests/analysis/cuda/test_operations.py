"""Operations of PTX on tensor cores: by the types of their factors, not of their sums."""

from __future__ import annotations

import pytest

from solkit.adapters.triton_compiler import Compiled
from solkit.analysis.common.ptx_code import read_ptx
from solkit.analysis.cuda.operations import warp_operations
from solkit.analysis.cuda.requests import cuda_requests
from solkit.analysis.interpreter.thread_groups import Grid
from solkit.core import Occupancy
from solkit.roofline import devices


@pytest.mark.parametrize(
    ("opcode", "pipe", "flops"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "bf16", 2 * 16 * 8 * 16),
        ("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", "fp16", 2 * 16 * 8 * 16),
        ("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32", "int8", 2 * 16 * 8 * 32),
        (
            "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32",
            "fp8",
            2 * 16 * 8 * 32,
        ),
        (
            "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0",
            *("fp4", 2 * 16 * 8 * 64),
        ),
        ("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", "fp16", 4096),
        ("wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8", "int8", 2 * 64 * 128 * 32 / 4),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32", "fp16", 2 * 16**3),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.s32.u8.u8.s32", "int8", 2 * 16**3),
    ],
)
def test_products_count_on_the_pipe_of_their_factors(opcode, pipe, flops):
    (statement,) = read_ptx(f"{opcode} {{%r1}}, {{%r2}}, {{%r3}}, {{%r4}};").statements
    assert warp_operations(statement) == {f"tensor.{pipe}": flops}


def products_of(descriptor, kind):
    text = f""".version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u32 k_0)
{{
    .reg .pred %p<4>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    mov.u32 %r1, %tid.x;
    setp.ne.s32 %p1, %r1, 0;
    @%p1 bra $L__BB0_2;
    {descriptor}
    tcgen05.mma.cta_group::1.kind::{kind} [%r3], %rd1, %rd2, %r2, %p2;
$L__BB0_2:
    ret;
}}
"""
    compiled = Compiled(shared_bytes=0, ptx=text, entry="k")
    resident = Occupancy(0.5, "shared", 8, 1.0, 1.0)
    grid = Grid((4, 1, 1), (128, 1, 1))
    return cuda_requests(compiled, (None,), (), grid, devices.find("b200"), resident)


@pytest.mark.parametrize(
    ("kind", "formats", "pipe", "k"),
    [
        ("f16", 1 << 7 | 1 << 10, "bf16", 16),
        ("f16", 0, "fp16", 16),
        ("tf32", 2 << 7 | 2 << 10, "tf32", 8),
        ("mxf4", 1 << 7 | 1 << 10, "fp4", 64),
    ],
)
def test_a_blackwell_product_says_its_sizes_in_its_descriptor(kind, formats, pipe, k):
    described = 128 >> 4 << 24 | 256 >> 3 << 17 | formats
    seen = products_of(f"mov.b32 %r2, {described};", kind)
    assert seen.operations == {f"tensor.{pipe}": 4 * 2 * 128 * 256 * k}


def test_a_descriptor_that_is_not_known_is_said():
    seen = products_of("ld.param.u32 %r2, [k_0];", "f16")
    assert seen.operations == {}
    assert any("operations of tcgen05.mma" in guess for guess in seen.guesses)
