"""Attention of fp8 (e4m3) queries, keys and turned values with a scale for each head."""

import torch
import torch.nn.functional as F

KIND = "attention"
SHAPES = [
    {"B": 2, "H": 16, "S": 4096, "D": 128, "dtype": "bfloat16"},
    {"B": 1, "H": 8, "S": 8192, "D": 128, "dtype": "bfloat16"},
    {"B": 4, "H": 12, "S": 2048, "D": 64, "dtype": "float16"},
    {"B": 1, "H": 6, "S": 5008, "D": 64, "dtype": "bfloat16"},
    {"B": 8, "H": 8, "S": 1040, "D": 128, "dtype": "float16"},
    {"B": 1, "H": 16, "S": 6000, "D": 128, "dtype": "float16"},
    {"B": 2, "H": 4, "S": 3008, "D": 64, "dtype": "bfloat16"},
]
# Results are of order S**-0.5; weights may be rounded to three bits before they meet the values.
TOLERANCE = {"rtol": 5e-2, "atol": 2e-2}


def inputs(B=2, H=16, S=4096, D=128, dtype=torch.bfloat16, device="cuda"):
    """S is a multiple of 16; values come as (B, H, D, S), as fp8 products want them."""
    q, k = (torch.randn(B, H, S, D, device=device).to(torch.float8_e4m3fn) for _ in range(2))
    v = torch.randn(B, H, D, S, device=device).to(torch.float8_e4m3fn)
    score_scale, v_scale = (0.5 + torch.rand(B, H, device=device) for _ in range(2))
    return q, k, v, score_scale, v_scale, dtype


def reference(q, k, v, score_scale, v_scale, dtype):
    queries = (q.to(torch.bfloat16) * score_scale[:, :, None, None]).to(torch.bfloat16)
    values = v.transpose(2, 3).to(torch.bfloat16)
    out = F.scaled_dot_product_attention(queries, k.to(torch.bfloat16), values)
    return (out * v_scale[:, :, None, None]).to(dtype)


def fits(shape, block_m, block_n, warps, stages, size=1):
    """Whether such tiles of a fused kernel fit: inputs in shared memory, the rest in registers."""
    shared = (block_m + 2 * max(1, stages) * block_n) * shape["D"] * size
    held = block_m * (block_n + shape["D"]) / (32 * warps)
    return shared <= 220 * 1024 and 16 <= held <= 192
