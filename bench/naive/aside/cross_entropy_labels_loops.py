"""Cross entropy with integer labels: a row a program, three loops, losses added by atomics."""

import torch
import triton
import triton.language as tl

SHAPES = [{"rows": 2048, "vocab": 50257}]
HELD_OUT_SHAPES = [{"rows": 37, "vocab": 1003}]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(logits, labels):
    return torch.nn.functional.cross_entropy(logits.float(), labels)


def inputs(rows=2048, vocab=50257, device="cuda"):
    logits = torch.randn(rows, vocab, dtype=torch.bfloat16, device=device)
    return logits, torch.randint(0, vocab, (rows,), device=device)


@triton.jit
def cross_entropy_kernel(
    logits_ptr, labels_ptr, loss_ptr, n_rows, n_cols, row_stride, BLOCK_SIZE: tl.constexpr
):
    row = tl.program_id(0)
    row_ptr = logits_ptr + row * row_stride
    label = tl.load(labels_ptr + row)
    max_val = -float("inf")
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        vals = tl.load(row_ptr + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        max_val = tl.maximum(max_val, tl.max(vals, axis=0))
    sum_exp = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        vals = tl.load(row_ptr + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        sum_exp += tl.sum(tl.exp(vals - max_val), axis=0)
    target = 0.0
    for start in range(0, n_cols, BLOCK_SIZE):
        cols = start + tl.arange(0, BLOCK_SIZE)
        vals = tl.load(row_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        target += tl.sum(tl.where(cols == label, vals, 0.0), axis=0)
    loss = tl.log(sum_exp) + max_val - target
    tl.atomic_add(loss_ptr, loss / n_rows)


def kernel(logits, labels):
    n_rows, n_cols = logits.shape
    loss = torch.zeros((), dtype=torch.float32, device=logits.device)
    cross_entropy_kernel[(n_rows,)](
        logits, labels, loss, n_rows, n_cols, logits.stride(0), BLOCK_SIZE=256
    )
    return loss
