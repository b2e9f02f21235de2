"""Attention of one new token a sequence over keys and values in pages that a table names."""

import torch

KIND = "attention"
# A sequence ends somewhere in the last PAGE of its S tokens: what must be read is all but known.
SHAPES = [
    {"B": 16, "H": 32, "KV": 8, "S": 2048, "D": 128, "PAGE": 16, "dtype": "bfloat16"},
    {"B": 4, "H": 32, "KV": 8, "S": 8192, "D": 128, "PAGE": 64, "dtype": "float16"},
    {"B": 32, "H": 16, "KV": 16, "S": 512, "D": 64, "PAGE": 16, "dtype": "float16"},
    {"B": 2, "H": 64, "KV": 8, "S": 5000, "D": 64, "PAGE": 32, "dtype": "bfloat16"},
    {"B": 7, "H": 12, "KV": 4, "S": 1111, "D": 128, "PAGE": 16, "dtype": "bfloat16"},
    {"B": 1, "H": 8, "KV": 2, "S": 300, "D": 64, "PAGE": 32, "dtype": "float16"},
    {"B": 64, "H": 8, "KV": 1, "S": 1024, "D": 128, "PAGE": 128, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-3}
LOG2_E = 1.4426950408889634


def inputs(B=16, H=32, KV=8, S=2048, D=128, PAGE=16, dtype=torch.bfloat16, device="cuda"):
    per_sequence = -(-S // PAGE)
    pages = B * per_sequence
    q = torch.randn(B, H, D, dtype=dtype, device=device)
    k, v = (torch.randn(pages, PAGE, KV, D, dtype=dtype, device=device) for _ in range(2))
    table = torch.randperm(pages, device=device).to(torch.int32).view(B, per_sequence)
    lengths = S - torch.randint(PAGE, (B,), dtype=torch.int32, device=device)
    return q, k, v, table, lengths


def reference(q, k_pages, v_pages, table, lengths):
    B, H, D = q.shape
    KV = k_pages.shape[2]
    k, v = (x[table.long()].flatten(1, 2).transpose(1, 2) for x in (k_pages, v_pages))
    seen = torch.arange(k.shape[2], device=q.device) < lengths[:, None, None, None]
    grouped = q.view(B, KV, H // KV, D)
    out = torch.nn.functional.scaled_dot_product_attention(grouped, k, v, attn_mask=seen)
    return out.reshape(B, H, D)
