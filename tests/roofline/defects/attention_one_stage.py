"""Expected: "num_stages". Attention that waits for the keys and values of each step."""

import torch
import triton
import triton.language as tl


def inputs(B=4, H=16, S=2048, D=64, dtype=torch.float16, device="cuda"):
    return tuple(torch.randn(B, H, S, D, dtype=dtype, device=device) for _ in range(3))


def reference(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


@triton.jit
def attention_kernel(q, k, v, out, S, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    base = tl.program_id(1) * S * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    inner = tl.arange(0, D)
    queries = tl.load(q + base + rows[:, None] * D + inner[None, :])
    peak = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    for start in range(0, S, BN):
        columns = start + tl.arange(0, BN)
        keys = tl.load(k + base + columns[None, :] * D + inner[:, None])
        scores = tl.dot(queries, keys) * (0.125 * 1.4426950408889634)
        top = tl.maximum(peak, tl.max(scores, 1))
        weights = tl.exp2(scores - top[:, None])
        shrink = tl.exp2(peak - top)
        total = total * shrink + tl.sum(weights, 1)
        values = tl.load(v + base + columns[:, None] * D + inner[None, :])
        sums = tl.dot(weights.to(tl.float16), values, sums * shrink[:, None])
        peak = top
    tl.store(
        out + base + rows[:, None] * D + inner[None, :], (sums / total[:, None]).to(tl.float16)
    )


def kernel(q, k, v):
    B, H, S, D = q.shape
    out = torch.empty_like(q)
    attention_kernel[(S // 128, B * H)](q, k, v, out, S, 128, 64, D, num_warps=8, num_stages=1)
    return out
