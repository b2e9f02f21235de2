"""Conch's paged attention: splits of the cache blocks as a side of the grid, then a reduction."""

import torch
import triton
from conch.kernels.attention.paged_attention import (
    _paged_attention_compute_splits_kernel,
    _paged_attention_reduce_splits_kernel,
)

from solkit.datasets.libraries.packages import check_installed
from solkit.datasets.zoo.attention_paged import problem
from solkit.datasets.zoo.attention_paged.problem import inputs, reference

check_installed("conch-triton-kernels", "1.3")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "attention"
TOLERANCE = {"rtol": 2e-2, "atol": 1e-2}  # its parts and their weights are of the input's dtype
SHAPES = [problem.SHAPES[place] for place in (0, 1, 3, 6)]
SPACE = {
    "max_num_splits": [1, 2, 4, 8, 16, 32, 64],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3],
}


def valid(params, shape):
    return params["max_num_splits"] * shape["PAGE"] <= shape["S"]


def kernel(query, key_cache, value_cache, block_table, seq_lens, *, max_num_splits=32,
           num_warps=4, num_stages=2):  # fmt: skip
    batch_size, num_query_heads, head_size = query.shape
    _, cache_block_size, num_kv_heads, _ = key_cache.shape
    group = num_query_heads // num_kv_heads
    blocks = block_table.shape[1]
    num_splits = min(blocks, max_num_splits)
    per_split = triton.cdiv(blocks, num_splits)
    out = torch.empty_like(query)
    pad = query.new_empty(batch_size, num_splits, num_query_heads, head_size)
    lse = query.new_empty(batch_size, num_splits, num_query_heads)
    padded = triton.next_power_of_2(head_size)
    _paged_attention_compute_splits_kernel[(batch_size, num_splits, num_kv_heads)](
        pad, lse, query, key_cache, value_cache, block_table, seq_lens, None, None,
        head_size**-0.5, per_split, 0.0, head_size, group, pad.stride(0), pad.stride(1),
        pad.stride(2), lse.stride(0), lse.stride(1), query.stride(0), query.stride(1),
        *key_cache.stride(), block_table.stride(0), cache_block_size, padded,
        max(16, triton.next_power_of_2(group)), False, False, False,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    _paged_attention_reduce_splits_kernel[(batch_size, num_query_heads)](
        out, pad, lse, seq_lens, per_split, head_size, out.stride(0), out.stride(1),
        pad.stride(0), pad.stride(1), pad.stride(2), lse.stride(0), lse.stride(1),
        cache_block_size, padded,
    )  # fmt: skip
    return out
