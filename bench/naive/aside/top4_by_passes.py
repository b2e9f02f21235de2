"""The four largest of each row by four passes: each finds a maximum below the last one's place."""

import torch
import triton
import triton.language as tl

SHAPES = [{"rows": 1024, "n": 32768}]
HELD_OUT_SHAPES = [{"rows": 19, "n": 3001}]


def reference(x):
    return torch.topk(x, 4, -1).values


def inputs(rows=1024, n=32768, device="cuda"):
    order = torch.stack([torch.randperm(n, device=device) for _ in range(rows)])
    return (order.float() + torch.rand(rows, 1, device=device),)


@triton.jit
def top_pass(x, seen, out, n, K: tl.constexpr, PASS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    limit = float("inf")
    if PASS > 0:
        limit = tl.load(seen + row * K + PASS - 1)
    best = float("-inf")
    for i in range(0, tl.cdiv(n, BLOCK)):
        c = i * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + c, mask=c < n, other=float("-inf"))
        v = tl.where(v < limit, v, float("-inf"))
        best = tl.maximum(best, tl.max(v, axis=0))
    tl.store(out + row * K + PASS, best)


def kernel(x):
    rows, n = x.shape
    out = torch.empty((rows, 4), dtype=torch.float32, device=x.device)
    for p in range(4):
        top_pass[(rows,)](x, out, out, n, K=4, PASS=p, BLOCK=256)
    return out
