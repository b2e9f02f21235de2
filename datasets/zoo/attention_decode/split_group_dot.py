"""Groups of heads as the rows of tl.dot, keys split among programs, a second kernel combines."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_decode.problem import (
    SHAPES,
    TOLERANCE,
    inputs,
    item_bytes,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_N": [32, 64, 128],
    "SPLITS": [2, 4, 8, 16, 32, 64],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def stage_1(
    q_ptr, k_ptr, v_ptr, mid_ptr, lse_ptr, GROUP, S, CHUNK, sm_scale,
    ROWS: tl.constexpr, D: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    split = tl.program_id(0)
    cur_kv = tl.program_id(1)
    offs_g = tl.arange(0, ROWS)
    offs_d = tl.arange(0, D)
    mask_g = offs_g < GROUP
    head = cur_kv * GROUP + offs_g
    q = tl.load(q_ptr + head[:, None] * D + offs_d, mask=mask_g[:, None], other=0.0)
    k_block = tl.make_block_ptr(
        k_ptr + cur_kv * S * D, (D, S), (1, D), (0, split * CHUNK), (D, BLOCK_N), (0, 1)
    )
    v_block = tl.make_block_ptr(
        v_ptr + cur_kv * S * D, (S, D), (D, 1), (split * CHUNK, 0), (BLOCK_N, D), (1, 0)
    )
    e_max = tl.full([ROWS], -float("inf"), tl.float32)
    e_sum = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, D], tl.float32)
    stop = tl.minimum((split + 1) * CHUNK, S)
    for start_n in range(split * CHUNK, stop, BLOCK_N):
        k = tl.load(k_block, boundary_check=(1,), padding_option="zero")
        qk = tl.dot(q, k) * sm_scale
        qk = tl.where((start_n + tl.arange(0, BLOCK_N))[None, :] < stop, qk, -float("inf"))
        n_max = tl.maximum(tl.max(qk, 1), e_max)
        re_scale = tl.exp(e_max - n_max)
        p = tl.exp(qk - n_max[:, None])
        v = tl.load(v_block, boundary_check=(0,), padding_option="zero")
        acc = acc * re_scale[:, None] + tl.dot(p.to(v.dtype), v)
        e_sum = e_sum * re_scale + tl.sum(p, 1)
        e_max = n_max
        k_block = tl.advance(k_block, (0, BLOCK_N))
        v_block = tl.advance(v_block, (BLOCK_N, 0))
    # Each part is a finished attention over its keys; its log-sum-exp is its share in the whole.
    place = head * tl.num_programs(0) + split
    at = mid_ptr + place[:, None] * D + offs_d
    tl.store(at, acc / e_sum[:, None], mask=mask_g[:, None])
    tl.store(lse_ptr + place, e_max + tl.log(e_sum), mask=mask_g)


@triton.jit
def stage_2(mid_ptr, lse_ptr, out_ptr, D: tl.constexpr, SPLITS: tl.constexpr):
    head = tl.program_id(0)
    offs_d = tl.arange(0, D)
    lse = tl.load(lse_ptr + head * SPLITS + tl.arange(0, SPLITS))
    top = tl.max(lse, 0)
    whole = tl.sum(tl.exp(lse - top), 0)
    acc = tl.zeros([D], tl.float32)
    for split in range(SPLITS):
        share = tl.exp(tl.load(lse_ptr + head * SPLITS + split) - top) / whole
        acc += share * tl.load(mid_ptr + (head * SPLITS + split) * D + offs_d)
    tl.store(out_ptr + head * D + offs_d, acc.to(out_ptr.dtype.element_ty))


def valid(params, shape):
    """Tiles fit in shared memory, and every split has keys."""
    splits, length = params["SPLITS"], -(-shape["S"] // params["SPLITS"])
    shared = 2 * params["num_stages"] * params["BLOCK_N"] * shape["D"] * item_bytes(shape)
    return shared <= 220 * 1024 and (splits - 1) * length < shape["S"]


def kernel(q, k, v, *, BLOCK_N=32, SPLITS=8, num_warps=4, num_stages=2):
    B, H, D = q.shape
    KV, S = k.shape[1:3]
    mid = torch.empty((B, H, SPLITS, D), dtype=torch.float32, device=q.device)
    lse = torch.empty((B, H, SPLITS), dtype=torch.float32, device=q.device)
    out = torch.empty_like(q)
    stage_1[(SPLITS, B * KV)](
        q, k, v, mid, lse, H // KV, S, triton.cdiv(S, SPLITS), D**-0.5,
        max(16, triton.next_power_of_2(H // KV)), D, BLOCK_N,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    stage_2[(B * H,)](mid, lse, out, D, SPLITS, num_warps=1)
    return out
