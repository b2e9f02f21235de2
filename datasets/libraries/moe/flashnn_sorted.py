"""FlashNN's fused experts: tokens sorted by expert and padded to the tile, as vLLM has it."""

import torch
import triton
from flashnn.triton_kernels.fused_moe_fp16 import _fused_moe_kernel

from solkit.datasets.libraries.moe.problem import (
    KIND,
    SHAPES,
    TOLERANCE,
    inputs,
    reference,
    sort_by_expert,
)
from solkit.datasets.libraries.moe.problem import tile_fits as valid
from solkit.datasets.libraries.packages import check_installed

check_installed("flashnn", "0.1.1")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_SIZE_M": [16, 32, 64, 128],
    "BLOCK_SIZE_N": [32, 64, 128, 256],
    "BLOCK_SIZE_K": [32, 64, 128],
    "GROUP_SIZE_M": [1, 8],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


def kernel(a, b, topk_weights, topk_ids, *, BLOCK_SIZE_M=64, BLOCK_SIZE_N=64, BLOCK_SIZE_K=32,
           GROUP_SIZE_M=8, num_warps=4, num_stages=3):  # fmt: skip
    M, top_k = topk_ids.shape
    E, N, K = b.shape
    c = torch.empty(M, top_k, N, dtype=a.dtype, device=a.device)
    sorted_ids, expert_ids, padded = sort_by_expert(topk_ids, BLOCK_SIZE_M, E)
    EM = sorted_ids.shape[0]
    _fused_moe_kernel[(triton.cdiv(EM, BLOCK_SIZE_M) * triton.cdiv(N, BLOCK_SIZE_N),)](
        a, b, c, topk_weights, sorted_ids, expert_ids, padded, N, K, EM, topk_ids.numel(),
        a.stride(0), a.stride(1), b.stride(0), b.stride(1), b.stride(2), c.stride(1), c.stride(2),
        BLOCK_SIZE_M=BLOCK_SIZE_M, BLOCK_SIZE_N=BLOCK_SIZE_N, BLOCK_SIZE_K=BLOCK_SIZE_K,
        GROUP_SIZE_M=GROUP_SIZE_M, MUL_ROUTED_WEIGHT=True, top_k=top_k,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c
