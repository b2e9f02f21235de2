"""A head a program without tl.dot; keys in splits, which another kernel weighs all at once."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "attention"
SHAPES = [{"case": 0}, {"case": 1}, {"case": 2}, {"case": 3}]
SIZES = [
    (8, 32, 32, 2048, 128, torch.float16),
    (1, 40, 8, 20000, 128, torch.bfloat16),
    (64, 16, 16, 300, 64, torch.float16),
    (2, 8, 1, 7000, 256, torch.bfloat16),
]
TOLERANCE = {"rtol": 2e-2, "atol": 3e-3}
SPACE = {
    "NUM_SPLITS": [1, 2, 4, 8, 16, 32],
    "BLOCK_SEQ": [16, 32, 64, 128],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def _flash_decode_part(
    Q, K, V, sm_scale, B_Seqlen, Mid_O, Mid_M, Mid_S,
    stride_qbs, stride_qh, stride_kbs, stride_kn, stride_kh, stride_mid_ob, stride_mid_oh,
    stride_mid_os, gqa_group_size, BLOCK_SEQ: tl.constexpr, BLOCK_DMODEL: tl.constexpr,
):  # fmt: skip
    cur_batch, cur_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    cur_kv_head = cur_head // gqa_group_size
    offs_d = tl.arange(0, BLOCK_DMODEL)
    seq_len = tl.load(B_Seqlen + cur_batch)
    part = tl.cdiv(seq_len, tl.num_programs(2))
    first = split * part
    last = tl.minimum(seq_len, first + part)
    q = tl.load(Q + cur_batch * stride_qbs + cur_head * stride_qh + offs_d).to(tl.float32)
    peak, total = -float("inf"), 0.0
    acc = tl.zeros([BLOCK_DMODEL], dtype=tl.float32)
    for start in range(first, last, BLOCK_SEQ):
        offs_n = start + tl.arange(0, BLOCK_SEQ)
        off_k = cur_batch * stride_kbs + offs_n[:, None] * stride_kn + cur_kv_head * stride_kh
        k = tl.load(K + off_k + offs_d[None, :], mask=offs_n[:, None] < last, other=0.0)
        att = tl.sum(q[None, :] * k.to(tl.float32), 1) * sm_scale
        att = tl.where(offs_n < last, att, float("-inf"))
        v = tl.load(V + off_k + offs_d[None, :], mask=offs_n[:, None] < last, other=0.0)
        new_peak = tl.maximum(tl.max(att, axis=0), peak)
        scale = tl.exp(peak - new_peak)
        p = tl.exp(att - new_peak)
        acc = acc * scale + tl.sum(p[:, None] * v.to(tl.float32), axis=0)
        total = total * scale + tl.sum(p, axis=0)
        peak = new_peak
    off_mid = cur_batch * stride_mid_ob + cur_head * stride_mid_oh + split * stride_mid_os
    tl.store(Mid_O + off_mid + offs_d, acc)
    tl.store(Mid_M + off_mid // BLOCK_DMODEL, peak)
    tl.store(Mid_S + off_mid // BLOCK_DMODEL, total)


@triton.jit
def _flash_decode_merge(
    Mid_O, Mid_M, Mid_S, Out, stride_mid_ob, stride_mid_oh, stride_mid_os, stride_obs, stride_oh,
    NUM_SPLITS: tl.constexpr, BLOCK_DMODEL: tl.constexpr,
):  # fmt: skip
    cur_batch, cur_head = tl.program_id(0), tl.program_id(1)
    offs_s, offs_d = tl.arange(0, NUM_SPLITS), tl.arange(0, BLOCK_DMODEL)
    off_mid = cur_batch * stride_mid_ob + cur_head * stride_mid_oh + offs_s * stride_mid_os
    peaks = tl.load(Mid_M + off_mid // BLOCK_DMODEL)
    scale = tl.exp(peaks - tl.max(peaks, 0))
    total = tl.sum(scale * tl.load(Mid_S + off_mid // BLOCK_DMODEL), 0)
    parts = tl.load(Mid_O + off_mid[:, None] + offs_d[None, :])
    out = tl.sum(parts * scale[:, None], 0) / total
    place = cur_batch * stride_obs + cur_head * stride_oh + offs_d
    tl.store(Out + place, out.to(Out.dtype.element_ty))


def valid(params, shape):
    tile = params["BLOCK_SEQ"] * SIZES[shape["case"]][4] / (32 * params["num_warps"])
    return params["NUM_SPLITS"] * 16 <= SIZES[shape["case"]][3] and 4 <= tile <= 128


def inputs(case=0, device="cuda"):
    batch, heads, kv_heads, length, dim, dtype = SIZES[case]
    q = torch.randn(batch, heads, dim, dtype=dtype, device=device)
    k, v = (torch.randn(batch, length, kv_heads, dim, dtype=dtype, device=device) for _ in range(2))
    return q, k, v, torch.full((batch,), length, dtype=torch.int32, device=device)


def reference(q, k, v, b_seq_len):
    k, v = k.transpose(1, 2), v.transpose(1, 2)
    return F.scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=True)[:, :, 0]


def kernel(q, k, v, b_seq_len, *, NUM_SPLITS=8, BLOCK_SEQ=32, num_warps=4, num_stages=2):
    batch, heads, dim = q.shape
    mid_o = q.new_empty((batch, heads, NUM_SPLITS, dim), dtype=torch.float32)
    mid_m, mid_s = (torch.empty_like(mid_o[..., 0]) for _ in range(2))
    out = torch.empty_like(q)
    _flash_decode_part[(batch, heads, NUM_SPLITS)](
        q, k, v, dim**-0.5, b_seq_len, mid_o, mid_m, mid_s, q.stride(0), q.stride(1), k.stride(0),
        k.stride(1), k.stride(2), *mid_o.stride()[:3], heads // k.shape[2], BLOCK_SEQ=BLOCK_SEQ,
        BLOCK_DMODEL=dim, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    _flash_decode_merge[(batch, heads)](
        mid_o, mid_m, mid_s, out, *mid_o.stride()[:3], out.stride(0), out.stride(1),
        NUM_SPLITS=NUM_SPLITS, BLOCK_DMODEL=dim,
    )  # fmt: skip
    return out
