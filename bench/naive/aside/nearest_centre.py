"""Place of the smallest distance of each row, lane by lane, and joined at the end."""

import torch
import triton
import triton.language as tl

SHAPES = [{"Q": 64, "K": 262144}]
HELD_OUT_SHAPES = [{"Q": 9, "K": 10007}]


def reference(d):
    best = d.float().min(-1)
    return best.values, best.indices.to(torch.int32)


def inputs(Q=64, K=262144, dtype=torch.float32, device="cuda"):
    return (torch.randn(Q, K, dtype=dtype, device=device),)


@triton.jit
def nearest(d_ptr, v_ptr, i_ptr, K, BK: tl.constexpr):
    q = tl.program_id(0)
    lane = tl.arange(0, BK)
    best_v = tl.full((BK,), float("inf"), tl.float32)
    best_i = tl.zeros((BK,), tl.int32)
    for k in range(0, K, BK):
        at = k + lane
        v = tl.load(d_ptr + q * K + at, mask=at < K, other=float("inf"))
        closer = v < best_v
        best_v = tl.where(closer, v, best_v)
        best_i = tl.where(closer, at, best_i)
    v = tl.min(best_v, axis=0)
    i = tl.min(tl.where(best_v == v, best_i, 2147483647), axis=0)
    tl.store(v_ptr + q, v)
    tl.store(i_ptr + q, i)


def kernel(d):
    Q, K = d.shape
    vals = torch.empty(Q, dtype=torch.float32, device=d.device)
    ids = torch.empty(Q, dtype=torch.int32, device=d.device)
    nearest[(Q,)](d, vals, ids, K, BK=128)
    return vals, ids
