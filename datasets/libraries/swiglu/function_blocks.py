"""An autograd function whose grid has rows and blocks of columns of the packed halves."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.swiglu import problem
from solkit.datasets.zoo.swiglu.problem import TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "elementwise"
SHAPES = [problem.SHAPES[place] for place in (1, 3, 4, 6)]
SPACE = {"BLOCK_N": [128, 256, 512, 1024, 2048, 4096], "num_warps": [1, 2, 4, 8]}


@triton.jit
def _swiglu_fwd(gate_ptr, up_ptr, out_ptr, stride_in, stride_out, n_cols, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = cols < n_cols
    gate = tl.load(gate_ptr + row * stride_in + cols, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + row * stride_in + cols, mask=mask, other=0.0).to(tl.float32)
    out = gate / (1 + tl.exp(-gate)) * up
    tl.store(out_ptr + row * stride_out + cols, out.to(out_ptr.dtype.element_ty), mask=mask)


class SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, packed, BLOCK_N, num_warps):
        gate, up = packed.chunk(2, dim=-1)
        out = torch.empty(gate.shape, dtype=packed.dtype, device=packed.device)
        n_rows, n_cols = gate.shape
        _swiglu_fwd[(n_rows, triton.cdiv(n_cols, BLOCK_N))](
            gate, up, out, gate.stride(0), out.stride(0), n_cols, BLOCK_N=BLOCK_N,
            num_warps=num_warps,
        )  # fmt: skip
        ctx.save_for_backward(packed)
        return out


def kernel(packed, *, BLOCK_N=1024, num_warps=4):
    return SwiGLU.apply(packed, BLOCK_N, num_warps)
