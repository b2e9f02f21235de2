"""Grouped-query decode over sequences of different lengths, cache laid out as [B, S, H, D]."""

import torch
import triton
import triton.language as tl

SHAPES = [{"bs": 8, "S": 4096}]
HELD_OUT_SHAPES = [{"bs": 3, "S": 2500}]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-2}


def reference(q, kc, vc, lens):
    hq, d = q.shape[1:]
    hkv = kc.shape[2]
    kf, vf = (t.float().repeat_interleave(hq // hkv, 2) for t in (kc, vc))
    s = torch.einsum("bhd,bshd->bhs", q.float(), kf) * d**-0.5
    dead = torch.arange(kc.shape[1], device=q.device)[None, :] >= lens[:, None]
    s = s.masked_fill(dead[:, None, :], float("-inf"))
    return torch.einsum("bhs,bshd->bhd", torch.softmax(s, -1), vf).to(q.dtype)


def inputs(bs=8, S=4096, hq=16, hkv=2, d=64, dtype=torch.bfloat16, device="cuda"):
    q = torch.randn(bs, hq, d, dtype=dtype, device=device)
    kc = torch.randn(bs, S, hkv, d, dtype=dtype, device=device)
    vc = torch.randn(bs, S, hkv, d, dtype=dtype, device=device)
    lens = torch.randint(S // 2, S + 1, (bs,), dtype=torch.int32, device=device)
    return q, kc, vc, lens


@triton.jit
def _fwd(
    q, k_cache, v_cache, out, lens, qk_scale, S,
    HQ: tl.constexpr, HKV: tl.constexpr, D: tl.constexpr, BLK: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    seq = tl.program_id(1)
    kv_head = head // (HQ // HKV)
    length = tl.load(lens + seq)
    dims = tl.arange(0, D)
    qv = tl.load(q + (seq * HQ + head) * D + dims).to(tl.float32) * qk_scale * 1.4426950408889634
    mx = float("-inf")
    den = 0.0
    acc = tl.zeros((D,), dtype=tl.float32)
    for lo in range(0, length, BLK):
        pos = lo + tl.arange(0, BLK)
        live = pos < length
        offs = ((seq * S + pos[:, None]) * HKV + kv_head) * D + dims[None, :]
        kk = tl.load(k_cache + offs, mask=live[:, None], other=0.0).to(tl.float32)
        sc = tl.sum(kk * qv[None, :], 1)
        sc = tl.where(live, sc, float("-inf"))
        mx_new = tl.maximum(mx, tl.max(sc, 0))
        resc = tl.exp2(mx - mx_new)
        pr = tl.exp2(sc - mx_new)
        vv = tl.load(v_cache + offs, mask=live[:, None], other=0.0).to(tl.float32)
        acc = acc * resc + tl.sum(pr[:, None] * vv, 0)
        den = den * resc + tl.sum(pr, 0)
        mx = mx_new
    acc = acc / den
    tl.store(out + (seq * HQ + head) * D + dims, acc.to(out.dtype.element_ty))


def kernel(q, kc, vc, lens):
    bs, hq, d = q.shape
    _, S, hkv, _ = kc.shape
    o = torch.empty_like(q)
    grid = (hq, bs)
    _fwd[grid](q, kc, vc, o, lens, d**-0.5, S, HQ=hq, HKV=hkv, D=d, BLK=16, num_warps=2)
    return o
