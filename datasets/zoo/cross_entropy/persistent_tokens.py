"""Cross-entropy by programs that stay: tokens and blocks of the vocabulary in one flat loop."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cross_entropy.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264, 528, 1056],
    "BLOCK": [256, 512, 1024, 2048, 4096, 8192],
    "FLATTEN": [False, True],
    "num_warps": [2, 4, 8, 16],
    "num_stages": [1, 2, 4],
}


@triton.jit
def persistent_kernel(
    logits_ptr, targets_ptr, loss_ptr, T, V, BLOCK: tl.constexpr, FLATTEN: tl.constexpr
):
    lanes = tl.arange(0, BLOCK)
    first = tl.program_id(0).to(tl.int64)
    for token in tl.range(first, T, tl.num_programs(0), flatten=FLATTEN):
        row_ptr = logits_ptr + token * V
        target_logit = tl.load(row_ptr + tl.load(targets_ptr + token)).to(tl.float32)
        peak = -1e30
        total = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, V, BLOCK):
            x = tl.load(row_ptr + start + lanes, mask=start + lanes < V, other=float("-inf"))
            x = x.to(tl.float32)
            higher = tl.maximum(peak, tl.max(x, axis=0))
            total = total * tl.exp(peak - higher) + tl.exp(x - higher)  # one peak, many sums
            peak = higher
        tl.store(loss_ptr + token, peak + tl.log(tl.sum(total, axis=0)) - target_logit)


def valid(params, shape):
    """One to 32 values a thread, no block far longer than a row, work for every program."""
    block = params["BLOCK"]
    near = block <= 1024 or block < 2 * shape["V"]
    busy = params["PROGRAMS"] <= shape["T"]
    return near and busy and 1 <= block / (32 * params["num_warps"]) <= 32


def kernel(logits, targets, *, PROGRAMS=528, BLOCK=1024, FLATTEN=False, num_warps=4, num_stages=2):
    T, V = logits.shape
    loss = torch.empty(T, dtype=torch.float32, device=logits.device)
    persistent_kernel[(min(PROGRAMS, T),)](
        logits, targets, loss, T, V, BLOCK, FLATTEN, num_warps=num_warps, num_stages=num_stages
    )
    return loss
