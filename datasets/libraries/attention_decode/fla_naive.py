"""Decoding of flash-linear-attention: a head of a query a program, keys of all heads packed."""

import torch
import torch.nn.functional as F
import triton
from fla.ops.attn.decoding import naive_attn_decoding_kernel

from solkit.datasets.libraries.packages import check_installed

check_installed("fla-core", "0.6.0")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "attention"
SHAPES = [
    {"batch": 16, "HQ": 32, "H": 8, "context": 1024, "head_dim": 128, "dtype": "bfloat16"},
    {"batch": 64, "HQ": 16, "H": 16, "context": 512, "head_dim": 64, "dtype": "float16"},
    {"batch": 4, "HQ": 16, "H": 2, "context": 3000, "head_dim": 128, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 5e-3}
SPACE = {
    "BS": [16, 32, 64, 128],
    "BV": [16, 32, 64, 128],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [2, 3, 4],
}
HEURISTICS = naive_attn_decoding_kernel
WITHOUT_TUNER = HEURISTICS.fn.fn


def valid(params, shape):
    tile = params["BS"] * max(params["BV"], shape["head_dim"])
    return params["BV"] <= shape["head_dim"] and tile / (32 * params["num_warps"]) <= 256


def inputs(batch=16, HQ=32, H=8, context=1024, head_dim=128, dtype=torch.bfloat16, device="cuda"):
    q = torch.randn(1, batch, HQ, head_dim, dtype=dtype, device=device)
    k, v = (
        torch.randn(1, batch * context, H, head_dim, dtype=dtype, device=device) for _ in range(2)
    )
    return q, k, v, torch.arange(batch + 1, device=device, dtype=torch.int32) * context


def reference(q, k, v, cu_seqlens):
    batch, heads = q.shape[1], k.shape[2]
    k, v = (x.view(batch, -1, heads, x.shape[-1]).transpose(1, 2) for x in (k, v))
    return F.scaled_dot_product_attention(q[0][:, :, None], k, v, enable_gqa=True)[:, :, 0][None]


def kernel(q, k, v, cu_seqlens, *, BS=64, BV=64, num_warps=4, num_stages=2):
    _, B, HQ, K = q.shape
    H, V = k.shape[2], v.shape[3]
    o = torch.empty_like(q)
    WITHOUT_TUNER[(triton.cdiv(V, BV) * B * HQ,)](
        q=q, k=k, v=v, o=o, g_cumsum=None, sink_bias=None, scale=K**-0.5, cu_seqlens=cu_seqlens,
        T=k.shape[1], B=B, H=H, HQ=HQ, G=HQ // H, K=K, V=V, W=None, BS=BS,
        BK=triton.next_power_of_2(K), BV=BV, USE_G=False, USE_SINK_BIAS=False,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return o
