"""Cross-attention to the first so many keys of each batch; SKEW makes few batches long."""

import torch
import torch.nn.functional as F

KIND = "attention"
SHAPES = [
    {"B": 8, "H": 16, "Q": 1024, "S": 4096, "D": 64, "SKEW": 1.0, "dtype": "bfloat16"},
    {"B": 16, "H": 8, "Q": 300, "S": 8192, "D": 128, "SKEW": 4.0, "dtype": "bfloat16"},
    {"B": 4, "H": 12, "Q": 4096, "S": 1500, "D": 64, "SKEW": 0.0, "dtype": "float16"},
    {"B": 2, "H": 8, "Q": 4096, "S": 4096, "D": 128, "SKEW": 1.0, "dtype": "float16"},
    {"B": 32, "H": 8, "Q": 77, "S": 3001, "D": 64, "SKEW": 8.0, "dtype": "bfloat16"},
    {"B": 1, "H": 16, "Q": 9216, "S": 512, "D": 64, "SKEW": 0.0, "dtype": "float16"},
    {"B": 6, "H": 4, "Q": 1001, "S": 2003, "D": 128, "SKEW": 2.0, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(B=8, H=16, Q=1024, S=4096, D=64, SKEW=1.0, dtype=torch.bfloat16, device="cuda"):
    """Queries, keys, values, and how many keys of each batch are there: at least one."""
    q = torch.randn(B, H, Q, D, dtype=dtype, device=device)
    k, v = (torch.randn(B, H, S, D, dtype=dtype, device=device) for _ in range(2))
    lengths = 1 + (torch.rand(B, device=device).pow(SKEW) * (S - 1)).to(torch.int32)
    return q, k, v, lengths


def reference(q, k, v, lengths):
    seen = torch.arange(k.shape[2], device=q.device)[None, :] < lengths[:, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen[:, None, None, :])


def item_bytes(shape):
    """Bytes of an element of the inputs."""
    return 4 if "float32" in str(shape["dtype"]) else 2


def fits(shape, block_m, block_n, warps, stages):
    """Whether such tiles of a fused kernel fit: inputs in shared memory, the rest in registers."""
    shared = (block_m + 2 * max(1, stages) * block_n) * shape["D"] * item_bytes(shape)
    held = block_m * (block_n + shape["D"]) / (32 * warps)
    return shared <= 220 * 1024 and 8 <= held <= 192 and block_m < 2 * max(32, shape["Q"])
