"""Causal attention with a sliding window: a token sees itself and the `window` - 1 before it."""

import torch
import torch.nn.functional as F

KIND = "attention"
SHAPES = [
    {"B": 1, "H": 16, "S": 4096, "D": 64, "W": 512, "dtype": "bfloat16"},
    {"B": 1, "H": 8, "S": 8192, "D": 128, "W": 1024, "dtype": "bfloat16"},
    {"B": 2, "H": 8, "S": 2048, "D": 64, "W": 128, "dtype": "float16"},
    {"B": 1, "H": 4, "S": 3001, "D": 128, "W": 200, "dtype": "float16"},
    {"B": 4, "H": 8, "S": 1000, "D": 64, "W": 64, "dtype": "bfloat16"},
    {"B": 1, "H": 2, "S": 16384, "D": 64, "W": 256, "dtype": "bfloat16"},
    {"B": 1, "H": 4, "S": 700, "D": 32, "W": 33, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}
LOG2_E = 1.4426950408889634
CHUNK = 64  # tokens that the reference gives one window of keys


def inputs(B=1, H=16, S=4096, D=64, W=512, dtype=torch.bfloat16, device="cuda"):
    q, k, v = (torch.randn(B, H, S, D, dtype=dtype, device=device) for _ in range(3))
    return q, k, v, W


def reference(q, k, v, window):
    B, H, S, D = q.shape
    chunks = -(-S // CHUNK)
    rest = chunks * CHUNK - S
    q = F.pad(q, (0, 0, 0, rest)).view(B * H, chunks, CHUNK, D)
    k, v = (
        F.pad(x, (0, 0, window, rest)).unfold(2, window + CHUNK, CHUNK).flatten(0, 1).mT
        for x in (k, v)
    )
    # Key j of chunk c is token c CHUNK + j - window, query i is token c CHUNK + i.
    c, i, j = (
        torch.arange(n, device=q.device).view(shape)
        for n, shape in ((chunks, (-1, 1, 1)), (CHUNK, (-1, 1)), (window + CHUNK, (-1,)))
    )
    seen = (j > i) & (j <= i + window) & (c * CHUNK + j >= window)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    return out.reshape(B, H, chunks * CHUNK, D)[:, :, :S]


def fits(shape, block_m, block_n, warps, stages):
    """Whether such tiles fit: inputs in shared memory, scores and results in registers."""
    item = 4 if shape.get("dtype") == "float32" else 2
    shared = (block_m + 2 * max(1, stages) * block_n) * shape["D"] * item
    held = block_m * (block_n + shape["D"]) / (32 * warps)
    return shared <= 227 * 1024 and 4 <= held <= 256
