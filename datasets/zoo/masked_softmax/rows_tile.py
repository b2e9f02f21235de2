"""Causal softmax of a tile of whole rows, hidden scores moved far down by a bias."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.masked_softmax.problem import SCALE, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "TRANSPOSED": [False, True],
    "LOAD_HIDDEN": [True, False],
    "STORE_EVICT": ["", "evict_first", "evict_last"],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def rows_tile_kernel(
    X, Y, rows, Q, K, scale, ROWS: tl.constexpr, COLS: tl.constexpr, TRANSPOSED: tl.constexpr,
    LOAD_HIDDEN: tl.constexpr, STORE_EVICT: tl.constexpr,
):  # fmt: skip
    along: tl.constexpr = 0 if TRANSPOSED else 1
    r = tl.expand_dims(tl.program_id(0) * ROWS + tl.arange(0, ROWS), along)
    k = tl.expand_dims(tl.arange(0, COLS), 1 - along)
    at = r.to(tl.int64) * K + k
    inside = (r < rows) & (k < K)
    seen = k <= r % Q + K - Q
    wanted = inside if LOAD_HIDDEN else inside & seen
    bias = tl.where(seen & (k < K), 0.0, -1e30)
    x = tl.load(X + at, mask=wanted, other=0.0).to(tl.float32) * scale + bias
    e = tl.exp(x - tl.max(x, axis=along, keep_dims=True))
    y = e / tl.sum(e, axis=along, keep_dims=True)
    tl.store(Y + at, y.to(Y.dtype.element_ty), mask=inside, eviction_policy=STORE_EVICT)


def valid(params, shape):
    """One to 64 values a thread."""
    tile = params["ROWS"] * triton.next_power_of_2(shape["K"])
    return 1 <= tile / (32 * params["num_warps"]) <= 64


def kernel(scores, *, ROWS=1, TRANSPOSED=False, LOAD_HIDDEN=True, STORE_EVICT="", num_warps=4):
    B, Q, K = scores.shape
    y = torch.empty_like(scores)
    rows_tile_kernel[(triton.cdiv(B * Q, ROWS),)](
        scores, y, B * Q, Q, K, SCALE, ROWS, triton.next_power_of_2(K), TRANSPOSED,
        LOAD_HIDDEN, STORE_EVICT, num_warps=num_warps,
    )  # fmt: skip
    return y
