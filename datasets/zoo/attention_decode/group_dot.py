"""One program a head of keys: its group of queries, padded to 16 rows, meets them in tl.dot."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_decode.problem import (
    SHAPES,
    TOLERANCE,
    inputs,
    item_bytes,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_N": [16, 32, 64, 128, 256],
    "TRANSPOSED": [False, True],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def group_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, GROUP, S, scale,
    ROWS: tl.constexpr, D: tl.constexpr, BLOCK_N: tl.constexpr, TRANSPOSED: tl.constexpr,
):  # fmt: skip
    shared = tl.program_id(0)
    g, d = tl.arange(0, ROWS), tl.arange(0, D)
    mine = (shared * GROUP + g[:, None]) * D + d[None, :]
    q = tl.load(q_ptr + mine, mask=g[:, None] < GROUP, other=0.0)
    acc = tl.zeros((ROWS, D), dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    peak = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    for start in range(0, S, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        tile = (shared * S + n[:, None]) * D + d[None, :]
        k = tl.load(k_ptr + tile, mask=n[:, None] < S, other=0.0)
        # Transposed, the long side of a tile is the M of the product.
        scores = tl.dot(k, q.T).T if TRANSPOSED else tl.dot(q, k.T)
        scores = tl.where(n[None, :] < S, scores * scale, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        weights = tl.exp2(scores - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, axis=1)
        v = tl.load(v_ptr + tile, mask=n[:, None] < S, other=0.0)
        acc = tl.dot(weights.to(v.dtype), v, acc * decay[:, None])
        peak = new_peak
    out = (acc / total[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + mine, out, mask=g[:, None] < GROUP)


def valid(params, shape):
    """Tiles of keys and values fit in shared memory and give each thread 2 to 256 elements."""
    tile = params["BLOCK_N"] * shape["D"]
    shared = 2 * params["num_stages"] * tile * item_bytes(shape)
    return shared <= 220 * 1024 and 2 <= tile / (32 * params["num_warps"]) <= 256


def kernel(q, k, v, *, BLOCK_N=64, TRANSPOSED=False, num_warps=4, num_stages=2):
    B, H, D = q.shape
    KV, S = k.shape[1:3]
    out = torch.empty_like(q)
    group_kernel[(B * KV,)](
        q, k, v, out, H // KV, S, D**-0.5 * 1.4426950408889634,
        max(16, triton.next_power_of_2(H // KV)), D, BLOCK_N, TRANSPOSED,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
