"""A module's forward: groups of heads by tl.dot, keys in splits that the grid has, then a merge."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.attention_decode import problem
from solkit.datasets.zoo.attention_decode.problem import TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "attention"
SHAPES = [problem.SHAPES[place] for place in (0, 1, 3, 6)]
SPACE = {
    "num_kv_splits": [1, 2, 4, 8, 16, 32, 64],
    "BLOCK_N": [16, 32, 64, 128],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def _decode_stage1(
    Q, K, V, Mid, Lse, sm_scale, seq_len, num_kv_splits,
    stride_qb, stride_qh, stride_kb, stride_kh, stride_kn, stride_mb, stride_mh, stride_ms,
    group: tl.constexpr, head_dim: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    cur_batch, cur_kv, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    offs_h, offs_d = tl.arange(0, BLOCK_H), tl.arange(0, head_dim)
    heads = cur_kv * group + offs_h
    mask_h = offs_h < group
    q = tl.load(
        Q + cur_batch * stride_qb + heads[:, None] * stride_qh + offs_d[None, :],
        mask=mask_h[:, None], other=0.0,
    )  # fmt: skip
    per_split = tl.cdiv(tl.cdiv(seq_len, num_kv_splits), BLOCK_N) * BLOCK_N
    start = split * per_split
    end = tl.minimum(start + per_split, seq_len)
    e_max = tl.full([BLOCK_H], float("-inf"), dtype=tl.float32)
    e_sum = tl.zeros([BLOCK_H], dtype=tl.float32)
    acc = tl.zeros([BLOCK_H, head_dim], dtype=tl.float32)
    base = cur_batch * stride_kb + cur_kv * stride_kh
    if end > start:
        for start_n in range(start, end, BLOCK_N):
            offs_n = start_n + tl.arange(0, BLOCK_N)
            mask_n = offs_n < end
            k = tl.load(
                K + base + offs_n[None, :] * stride_kn + offs_d[:, None],
                mask=mask_n[None, :], other=0.0,
            )  # fmt: skip
            qk = tl.dot(q, k) * sm_scale
            qk = tl.where(mask_n[None, :], qk, float("-inf"))
            n_e_max = tl.maximum(tl.max(qk, 1), e_max)
            re_scale = tl.exp(e_max - n_e_max)
            p = tl.exp(qk - n_e_max[:, None])
            v = tl.load(
                V + base + offs_n[:, None] * stride_kn + offs_d[None, :],
                mask=mask_n[:, None], other=0.0,
            )  # fmt: skip
            acc = acc * re_scale[:, None] + tl.dot(p.to(v.dtype), v)
            e_sum = e_sum * re_scale + tl.sum(p, 1)
            e_max = n_e_max
        mid = cur_batch * stride_mb + heads * stride_mh + split * stride_ms
        tl.store(Mid + mid[:, None] + offs_d[None, :], acc / e_sum[:, None], mask=mask_h[:, None])
        tl.store(Lse + mid // head_dim, e_max + tl.log(e_sum), mask=mask_h)


@triton.jit
def _decode_stage2(
    Mid, Lse, O, seq_len, num_kv_splits, stride_mb, stride_mh, stride_ms, stride_ob, stride_oh,
    head_dim: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    cur_batch, cur_head = tl.program_id(0), tl.program_id(1)
    offs_d = tl.arange(0, head_dim)
    per_split = tl.cdiv(tl.cdiv(seq_len, num_kv_splits), BLOCK_N) * BLOCK_N
    e_max, e_sum = float("-inf"), 0.0
    acc = tl.zeros([head_dim], dtype=tl.float32)
    base = cur_batch * stride_mb + cur_head * stride_mh
    for split in range(0, tl.cdiv(seq_len, per_split)):
        place = base + split * stride_ms
        lse = tl.load(Lse + place // head_dim)
        n_e_max = tl.maximum(lse, e_max)
        old_scale = tl.exp(e_max - n_e_max)
        weight = tl.exp(lse - n_e_max)
        acc = acc * old_scale + weight * tl.load(Mid + place + offs_d)
        e_sum = e_sum * old_scale + weight
        e_max = n_e_max
    out = (acc / e_sum).to(O.dtype.element_ty)
    tl.store(O + cur_batch * stride_ob + cur_head * stride_oh + offs_d, out)


class SplitDecode(torch.nn.Module):
    def __init__(self, num_kv_splits, BLOCK_N, num_warps, num_stages):
        super().__init__()
        self.splits, self.block = num_kv_splits, BLOCK_N
        self.options = {"num_warps": num_warps, "num_stages": num_stages}

    def forward(self, q, k, v):
        batch, heads, head_dim = q.shape
        kv_heads, seq_len = k.shape[1:3]
        group = heads // kv_heads
        mid = q.new_empty(batch, heads, self.splits, head_dim, dtype=torch.float32)
        lse = q.new_empty(batch, heads, self.splits, dtype=torch.float32)
        out = torch.empty_like(q)
        _decode_stage1[(batch, kv_heads, self.splits)](
            q, k, v, mid, lse, head_dim**-0.5, seq_len, self.splits, q.stride(0), q.stride(1),
            *k.stride()[:3], *mid.stride()[:3], group=group, head_dim=head_dim,
            BLOCK_H=max(16, triton.next_power_of_2(group)), BLOCK_N=self.block, **self.options,
        )  # fmt: skip
        _decode_stage2[(batch, heads)](
            mid, lse, out, seq_len, self.splits, *mid.stride()[:3], out.stride(0), out.stride(1),
            head_dim=head_dim, BLOCK_N=self.block, num_warps=4,
        )  # fmt: skip
        return out


def valid(params, shape):
    """Every split has keys."""
    return params["num_kv_splits"] * params["BLOCK_N"] <= shape["S"]


def kernel(q, k, v, *, num_kv_splits=8, BLOCK_N=32, num_warps=4, num_stages=2):
    return SplitDecode(num_kv_splits, BLOCK_N, num_warps, num_stages)(q, k, v)
