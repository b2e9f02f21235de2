"""A log-softmax as somebody wrote it: a Triton kernel and its launcher, nothing of SolKit."""

import torch
import triton
import triton.language as tl


@triton.jit
def log_softmax_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    lanes = tl.arange(0, BLOCK)
    peak = tl.full((BLOCK,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        x = tl.load(x_ptr + row + start + lanes, mask=start + lanes < N, other=float("-inf"))
        x = x.to(tl.float32)
        higher = tl.maximum(peak, x)
        total = total * tl.exp(peak - higher) + tl.exp(x - higher)
        peak = higher
    top = tl.max(peak, axis=0)
    shift = top + tl.log(tl.sum(total * tl.exp(peak - top), axis=0))
    for start in range(0, N, BLOCK):
        mask = start + lanes < N
        x = tl.load(x_ptr + row + start + lanes, mask=mask).to(tl.float32)
        tl.store(out_ptr + row + start + lanes, (x - shift).to(out_ptr.dtype.element_ty), mask=mask)


def log_softmax(x, BLOCK=256, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    log_softmax_kernel[(M,)](x, out, N, BLOCK=BLOCK, num_warps=num_warps)
    return out
