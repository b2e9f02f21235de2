"""SageAttention: queries and keys in int8 with a scale a block, values in fp16."""

import torch
import triton
from sageattention.attn_qk_int8_per_block import _attn_fwd
from sageattention.quant_per_block import quant_per_block_int8_kernel

from solkit.datasets.libraries.packages import check_installed

check_installed("sageattention", "1.0.6")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "attention"
SHAPES = [{"case": 0}, {"case": 1}, {"case": 2}]
TOLERANCE = {"rtol": 5e-2, "atol": 2e-2}
SIZES = [(2, 16, 4, 2048, 128), (4, 8, 8, 1024, 64), (1, 32, 8, 4096, 64)]
SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


def valid(params, shape):
    return params["BLOCK_M"] * params["BLOCK_N"] / (32 * params["num_warps"]) <= 128


def inputs(case=0, device="cuda"):
    b, h_qo, h_kv, length, head_dim = SIZES[case]
    q = torch.randn(b, h_qo, length, head_dim, dtype=torch.float16, device=device)
    k, v = (
        torch.randn(b, h_kv, length, head_dim, dtype=torch.float16, device=device) for _ in range(2)
    )
    return q, k, v


def reference(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def quantise(x, block, sm_scale):
    """Return codes and a scale for each block of a head's rows."""
    b, h, length, head_dim = x.shape
    blocks = triton.cdiv(length, block)
    codes = torch.empty(x.shape, dtype=torch.int8, device=x.device)
    scale = torch.empty((b, h, blocks, 1), device=x.device, dtype=torch.float32)
    quant_per_block_int8_kernel[(blocks, h, b)](
        x, codes, scale, length, x.stride(0), x.stride(1), x.stride(2), codes.stride(0),
        codes.stride(1), codes.stride(2), scale.stride(0), scale.stride(1), sm_scale=sm_scale,
        C=head_dim, BLK=block,
    )  # fmt: skip
    return codes, scale


def kernel(q, k, v, *, BLOCK_M=128, BLOCK_N=64, num_warps=4, num_stages=3):
    b, h_qo, qo_len, head_dim = q.shape
    kv_len = k.shape[2]
    q_int8, q_scale = quantise(q, BLOCK_M, head_dim**-0.5 * 1.44269504)
    k_int8, k_scale = quantise(k, BLOCK_N, 1.0)
    o = torch.empty_like(q)
    strides = [side for x in (q_int8, k_int8, v, o) for side in x.stride()[:3]]
    _attn_fwd[(triton.cdiv(qo_len, BLOCK_M), h_qo, b)](
        q_int8, k_int8, v, q_scale, k_scale, o, *strides, qo_len, kv_len, h_qo,
        h_qo // k.shape[1], BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, HEAD_DIM=head_dim, STAGE=1,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return o
