"""New keys and values written to their slots in a paged cache, in place."""

import torch

KIND = "indexing"
SHAPES = [
    {"T": 8192, "KV": 8, "D": 128, "SLOTS": 32768, "dtype": "bfloat16"},
    {"T": 2048, "KV": 32, "D": 128, "SLOTS": 4096, "dtype": "float16"},
    {"T": 4096, "KV": 8, "D": 64, "SLOTS": 16384, "dtype": "float32"},
    {"T": 64, "KV": 8, "D": 128, "SLOTS": 8192, "dtype": "bfloat16"},
    {"T": 777, "KV": 5, "D": 64, "SLOTS": 3001, "dtype": "float16"},
    {"T": 16384, "KV": 1, "D": 128, "SLOTS": 65536, "dtype": "bfloat16"},
    {"T": 1021, "KV": 3, "D": 96, "SLOTS": 2048, "dtype": "float32"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}
OUTPUTS = ("k_cache", "v_cache")


def inputs(T=8192, KV=8, D=128, SLOTS=32768, dtype=torch.bfloat16, device="cuda"):
    k, v = (torch.randn(T, KV, D, dtype=dtype, device=device) for _ in range(2))
    k_cache, v_cache = (torch.randn(SLOTS, KV, D, dtype=dtype, device=device) for _ in range(2))
    return k, v, k_cache, v_cache, torch.randperm(SLOTS, device=device)[:T].to(torch.int32)


def reference(k, v, k_cache, v_cache, slots):
    k_cache[slots.long()] = k
    v_cache[slots.long()] = v
