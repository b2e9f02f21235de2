"""How many tokens each expert got: a program for each token, an atomic for each of its choices."""

import torch
import triton
import triton.language as tl

SHAPES = [{"tokens": 262144}]
HELD_OUT_SHAPES = [{"tokens": 50001}]


def reference(topk_ids):
    return torch.bincount(topk_ids.flatten().long(), minlength=64).to(torch.int32)


def inputs(tokens=262144, topk=8, device="cuda"):
    return (torch.randint(0, 64, (tokens, topk), dtype=torch.int32, device=device),)


@triton.jit
def count_experts(ids, counts, K, stride_t):
    token = tl.program_id(0)
    for j in range(K):
        expert = tl.load(ids + token * stride_t + j)
        tl.atomic_add(counts + expert, 1)


def kernel(topk_ids):
    tokens, topk = topk_ids.shape
    counts = torch.zeros((64,), dtype=torch.int32, device=topk_ids.device)
    count_experts[(tokens,)](topk_ids, counts, topk, topk_ids.stride(0))
    return counts
