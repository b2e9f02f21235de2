"""Tiles of gradient rows added atomically to the rows of their tokens."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.embedding_backward import problem
from solkit.datasets.zoo.embedding_backward.problem import TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "indexing"
SHAPES = [problem.SHAPES[place] for place in (0, 1, 4, 5)]
SPACE = {
    "BLOCK_SIZE_M": [1, 2, 4, 8, 16],
    "BLOCK_SIZE_N": [32, 64, 128, 256],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def embedding_backward_kernel(
    grad_output_ptr, grad_weight_ptr, indices_ptr, n_elements, embedding_dim: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr,
):  # fmt: skip
    offsets_m = tl.program_id(0) * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offsets_n = tl.program_id(1) * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    mask_m = offsets_m < n_elements
    indices = tl.load(indices_ptr + offsets_m, mask=mask_m, other=0)
    mask = mask_m[:, None] & (offsets_n < embedding_dim)[None, :]
    rows = offsets_m[:, None] * embedding_dim + offsets_n[None, :]
    grad = tl.load(grad_output_ptr + rows, mask=mask, other=0.0).to(tl.float32)
    places = indices[:, None] * embedding_dim + offsets_n[None, :]
    tl.atomic_add(grad_weight_ptr + places, grad, mask=mask, sem="relaxed")


def valid(params, shape):
    return 1 <= params["BLOCK_SIZE_M"] * params["BLOCK_SIZE_N"] / (32 * params["num_warps"]) <= 64


def kernel(grads, tokens, order, starts, *, BLOCK_SIZE_M=4, BLOCK_SIZE_N=128, num_warps=4):
    n_elements, dim = grads.shape
    grad_weight = torch.zeros(starts.shape[0] - 1, dim, dtype=torch.float32, device=grads.device)
    grid = (triton.cdiv(n_elements, BLOCK_SIZE_M), triton.cdiv(dim, BLOCK_SIZE_N))
    embedding_backward_kernel[grid](
        grads, grad_weight, tokens, n_elements, embedding_dim=dim, BLOCK_SIZE_M=BLOCK_SIZE_M,
        BLOCK_SIZE_N=BLOCK_SIZE_N, num_warps=num_warps,
    )  # fmt: skip
    return grad_weight
