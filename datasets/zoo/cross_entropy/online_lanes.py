"""Cross-entropy with a running peak and sum in every lane, merged after the loop."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cross_entropy.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096, 8192, 16384],
    "RESCALE": ["always", "when higher"],
    "FIND_TARGET": ["gather", "compare"],
    "num_warps": [1, 2, 4, 8, 16, 32],
    "num_stages": [1, 2, 4],
}


@triton.jit
def lanes_kernel(X, Y, LOSS, V, BLOCK: tl.constexpr, ALWAYS: tl.constexpr, GATHER: tl.constexpr):
    row = tl.program_id(0)
    X += row.to(tl.int64) * V
    y = tl.load(Y + row)
    m = tl.full((BLOCK,), -1e30, tl.float32)
    s = tl.zeros((BLOCK,), tl.float32)
    hit = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, V, BLOCK):
        j = k + tl.arange(0, BLOCK)
        x = tl.load(X + j, mask=j < V, other=float("-inf")).to(tl.float32)
        if not GATHER:  # the target's logit passes by: no dependent load
            hit += tl.where(j == y, x, 0.0)
        if ALWAYS:
            top = tl.maximum(m, x)
            s = s * tl.exp(m - top) + tl.exp(x - top)
            m = top
        else:  # one exponential an element: of minus the distance to the peak
            e = tl.exp(-tl.abs(x - m))
            s = tl.where(x > m, s * e + 1.0, s + e)
            m = tl.maximum(m, x)
    peak = tl.max(m, axis=0)
    lse = peak + tl.log(tl.sum(s * tl.exp(m - peak), axis=0))
    picked = tl.load(X + y).to(tl.float32) if GATHER else tl.sum(hit, axis=0)
    tl.store(LOSS + row, lse - picked)


def valid(params, shape):
    """One to 32 values a thread, and no block far longer than a row."""
    block = params["BLOCK"]
    near = block <= 512 or block < 2 * shape["V"]
    short = shape["V"] <= 512 * block  # a longer loop takes milliseconds
    return near and short and 1 <= block / (32 * params["num_warps"]) <= 32


def kernel(
    logits, targets, *, BLOCK=512, RESCALE="always", FIND_TARGET="gather", num_warps=4,
    num_stages=2,
):  # fmt: skip
    T, V = logits.shape
    loss = torch.empty(T, dtype=torch.float32, device=logits.device)
    lanes_kernel[(T,)](
        logits, targets, loss, V, BLOCK, RESCALE == "always", FIND_TARGET == "gather",
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return loss
