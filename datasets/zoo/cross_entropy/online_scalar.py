"""Cross-entropy with one running peak and sum a row, in base 2, the logits read once."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cross_entropy.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048, 4096, 8192, 16384, 32768],
    "LOAD_EVICT": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8, 16, 32],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def online_kernel(
    logits_ptr, targets_ptr, loss_ptr, V, BLOCK: tl.constexpr, LOAD_EVICT: tl.constexpr
):
    LOG2E: tl.constexpr = 1.4426950408889634
    LN2: tl.constexpr = 0.6931471805599453
    token = tl.program_id(0)
    row_ptr = logits_ptr + token.to(tl.int64) * V  # 64 bits: T * V soon exceeds 2**31
    target = tl.load(targets_ptr + token)
    target_logit = tl.load(row_ptr + target).to(tl.float32)
    # `total` is the sum of 2**(x - peak) so far, rescaled whenever the peak rises.
    peak = float("-inf")
    total = 0.0
    for start in range(0, V, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        logits = tl.load(
            row_ptr + cols, mask=cols < V, other=float("-inf"), eviction_policy=LOAD_EVICT
        )
        x = logits.to(tl.float32) * LOG2E
        new_peak = tl.maximum(peak, tl.max(x, axis=0))
        total = total * tl.exp2(peak - new_peak) + tl.sum(tl.exp2(x - new_peak), axis=0)
        peak = new_peak
    tl.store(loss_ptr + token, (peak + tl.log2(total)) * LN2 - target_logit)


def valid(params, shape):
    """One to 64 values a thread, and no block far longer than a row."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 64 and (params["BLOCK"] <= 1024 or params["BLOCK"] < 2 * shape["V"])


def kernel(logits, targets, *, BLOCK=1024, LOAD_EVICT="", num_warps=4, num_stages=2):
    T, V = logits.shape
    loss = torch.empty(T, dtype=torch.float32, device=logits.device)
    online_kernel[(T,)](
        logits, targets, loss, V, BLOCK, LOAD_EVICT, num_warps=num_warps, num_stages=num_stages
    )
    return loss
