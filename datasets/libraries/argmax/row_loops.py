"""Places of rows' largest elements: tiles of rows in a loop over columns."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.argmax import problem
from solkit.datasets.zoo.argmax.problem import inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "inputs", "kernel", "reference", "valid"]
KIND = "reduction"
SHAPES = [problem.SHAPES[place] for place in (0, 1, 2, 4)]
SPACE = {
    "BLOCK_M": [1, 2, 4, 8, 16],
    "BLOCK_N": [64, 256, 1024, 4096],
    "num_warps": [1, 4, 8, 16],
}


@triton.jit
def argmax_kernel(inp, out_index, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    pid_k = tl.program_id(1)
    m_offset = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    max_values = tl.full([BLOCK_M], dtype=tl.float32, value=float("-inf"))
    argmax_values = tl.full([BLOCK_M], dtype=tl.int64, value=0)
    for start_n in range(0, N, BLOCK_N):
        n_offset = start_n + tl.arange(0, BLOCK_N)
        offset = m_offset[:, None] * N * K + n_offset[None, :] * K + pid_k
        mask = (m_offset[:, None] < M) & (n_offset[None, :] < N)
        vals = tl.load(inp + offset, mask=mask, other=-float("inf")).to(tl.float32)
        local_max, local_argmax = tl.max(vals, 1, return_indices=True)
        update = local_max > max_values
        max_values = tl.where(update, local_max, max_values)
        argmax_values = tl.where(update, start_n + local_argmax, argmax_values)
    tl.store(out_index + m_offset * K + pid_k, argmax_values, mask=m_offset < M)


def valid(params, shape):
    return 1 <= params["BLOCK_M"] * params["BLOCK_N"] / (32 * params["num_warps"]) <= 128


def kernel(inp, *, BLOCK_M=1, BLOCK_N=1024, num_warps=4):
    M, N = inp.shape
    out_index = torch.empty(M, dtype=torch.int64, device=inp.device)
    argmax_kernel[(triton.cdiv(M, BLOCK_M), 1)](
        inp, out_index, M, N, 1, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=num_warps
    )
    return out_index
