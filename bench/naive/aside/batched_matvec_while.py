"""A small matrix times a vector for each item: rows one after the other in a while loop."""

import torch
import triton
import triton.language as tl

SHAPES = [{"items": 16384}]
HELD_OUT_SHAPES = [{"items": 333}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(mats, vecs):
    return torch.einsum("imk,ik->im", mats.float(), vecs.float())


def inputs(items=16384, m=48, k=64, device="cuda"):
    mats = torch.randn(items, m, k, dtype=torch.float16, device=device)
    return mats, torch.randn(items, k, dtype=torch.float16, device=device)


@triton.jit
def matvec(mats, vecs, out, m, K: tl.constexpr):
    item = tl.program_id(0)
    kk = tl.arange(0, K)
    v = tl.load(vecs + item * K + kk).to(tl.float32)
    r = 0
    while r < m:
        row = tl.load(mats + (item * m + r) * K + kk).to(tl.float32)
        tl.store(out + item * m + r, tl.sum(row * v, axis=0))
        r += 1


def kernel(mats, vecs):
    items, m, k = mats.shape
    out = torch.empty((items, m), dtype=torch.float32, device=mats.device)
    matvec[(items,)](mats, vecs, out, m, K=k)
    return out
