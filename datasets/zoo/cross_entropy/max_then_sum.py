"""Cross-entropy in two loops over the logits, the second of which finds most of them in L2."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cross_entropy.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_SIZE": [128, 256, 512, 1024, 2048, 4096, 8192],
    "SECOND_BACKWARDS": [False, True],
    "FIRST_EVICT": ["", "evict_last"],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 3],
}


@triton.jit
def max_then_sum_kernel(
    logits, labels, losses, n_classes, BLOCK_SIZE: tl.constexpr,
    SECOND_BACKWARDS: tl.constexpr, FIRST_EVICT: tl.constexpr,
):  # fmt: skip
    row_idx = tl.program_id(0)
    row = logits + row_idx.to(tl.int64) * n_classes
    offs = tl.arange(0, BLOCK_SIZE)

    running_max = tl.full((BLOCK_SIZE,), float("-inf"), dtype=tl.float32)
    for off in range(0, n_classes, BLOCK_SIZE):
        mask = off + offs < n_classes
        v = tl.load(row + off + offs, mask=mask, other=float("-inf"), eviction_policy=FIRST_EVICT)
        running_max = tl.maximum(running_max, v.to(tl.float32))
    row_max = tl.max(running_max, axis=0)

    exp_sum = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    last = (tl.cdiv(n_classes, BLOCK_SIZE) - 1) * BLOCK_SIZE
    for off in range(0, n_classes, BLOCK_SIZE):
        idx = (last - off if SECOND_BACKWARDS else off) + offs
        v = tl.load(row + idx, mask=idx < n_classes, other=float("-inf")).to(tl.float32)
        exp_sum += tl.exp(v - row_max)

    label = tl.load(labels + row_idx)
    picked = tl.load(row + label).to(tl.float32)
    tl.store(losses + row_idx, tl.log(tl.sum(exp_sum, axis=0)) - (picked - row_max))


def valid(params, shape):
    """One to 64 values a thread, and no block far longer than a row."""
    block = params["BLOCK_SIZE"]
    held = block / (32 * params["num_warps"])
    short = shape["V"] <= 512 * block  # a longer loop takes milliseconds
    return short and 1 <= held <= 64 and (block <= 512 or block < 2 * shape["V"])


def kernel(
    logits, targets, *, BLOCK_SIZE=512, SECOND_BACKWARDS=False, FIRST_EVICT="", num_warps=4,
    num_stages=2,
):  # fmt: skip
    n_rows, n_classes = logits.shape
    losses = torch.empty(n_rows, dtype=torch.float32, device=logits.device)
    max_then_sum_kernel[(n_rows,)](
        logits, targets, losses, n_classes, BLOCK_SIZE, SECOND_BACKWARDS, FIRST_EVICT,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return losses
