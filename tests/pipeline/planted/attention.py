"""The loop over keys is a while loop, which the compiler does not pipeline."""

import torch
import triton
import triton.language as tl

PLANTED = "pipeline"


def inputs(B=32, N=2048, D=64, device="cuda"):
    return tuple(torch.randn(B, N, D, device=device, dtype=torch.float16) for _ in range(3))


def reference(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


@triton.jit
def step(q, k, v, at, peak, scale, out):
    score = tl.dot(q, tl.trans(tl.load(k + at)))
    above = tl.maximum(peak, tl.max(score, 1))
    weight = tl.exp2(score - above[:, None])
    shrink = tl.exp2(peak - above)
    scale = scale * shrink + tl.sum(weight, 1)
    out = tl.dot(weight.to(tl.float16), tl.load(v + at), out * shrink[:, None])
    return above, scale, out


@triton.jit
def attention_kernel(q, k, v, o, N, PLANT: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    lane, column = tl.arange(0, BLOCK), tl.arange(0, D)
    base = tl.program_id(1) * N * D
    mine = base + (tl.program_id(0) * BLOCK + lane[:, None]) * D + column[None, :]
    query = tl.load(q + mine)
    peak = tl.full((BLOCK,), -1e30, tl.float32)
    scale = tl.zeros((BLOCK,), tl.float32)
    out = tl.zeros((BLOCK, D), tl.float32)
    if PLANT:
        start = 0
        while start < N:
            at = base + (start + lane[:, None]) * D + column[None, :]
            peak, scale, out = step(query, k, v, at, peak, scale, out)
            start += BLOCK
    else:
        for start in range(0, N, BLOCK):
            at = base + (start + lane[:, None]) * D + column[None, :]
            peak, scale, out = step(query, k, v, at, peak, scale, out)
    tl.store(o + mine, (out / scale[:, None]).to(tl.float16))


def kernel(q, k, v, *, PLANT=False, num_warps=4, num_stages=3):
    B, N, D = q.shape
    o = torch.empty_like(q)
    attention_kernel[(N // 64, B)](
        q, k, v, o, N, PLANT, D, 64, num_warps=num_warps, num_stages=num_stages
    )
    return o
