"""Products of tokens with the weights of their experts, a row a choice, weighted by the router."""

import torch

KIND = "matmul"
SHAPES = [
    {"num_tokens": 1024, "E": 8, "top_k": 2, "N": 2048, "K": 1024, "dtype": "bfloat16"},
    {"num_tokens": 64, "E": 64, "top_k": 6, "N": 1408, "K": 2048, "dtype": "bfloat16"},
    {"num_tokens": 4096, "E": 32, "top_k": 4, "N": 512, "K": 768, "dtype": "float16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def inputs(num_tokens=1024, E=8, top_k=2, N=2048, K=1024, dtype=torch.bfloat16, device="cuda"):
    a = torch.randn(num_tokens, K, dtype=dtype, device=device)
    b = torch.randn(E, N, K, dtype=dtype, device=device) * K**-0.5
    gating = torch.randn(num_tokens, E, device=device).softmax(dim=-1)
    topk_weights, topk_ids = gating.topk(top_k, dim=-1)
    return a, b, topk_weights, topk_ids.to(torch.int32)


def reference(a, b, topk_weights, topk_ids):
    out = torch.empty(*topk_ids.shape, b.shape[1], dtype=torch.float32, device=a.device)
    for expert in range(b.shape[0]):
        product = a @ b[expert].t()
        chosen = topk_ids == expert
        out = torch.where(chosen[..., None], product[:, None].float(), out)
    return (out * topk_weights[..., None]).to(a.dtype)


def sort_by_expert(topk_ids, block_size, num_experts):
    """Return slots by expert, each expert's padded to the block; experts of blocks; the count.

    All of it stays on the GPU, as lengths there decide; space is for the worst case.
    """
    flat = topk_ids.flatten().long()
    slots = flat.numel()
    counts = torch.zeros(num_experts, dtype=torch.long, device=flat.device)
    counts.scatter_add_(0, flat, torch.ones_like(flat))
    blocks = (counts + block_size - 1) // block_size
    ends = blocks.cumsum(0)
    most = -(-slots // block_size) + num_experts
    order = flat.argsort(stable=True)
    in_order = flat[order]
    first = counts.cumsum(0) - counts
    rank = torch.arange(slots, device=flat.device) - first[in_order]
    places = (ends - blocks)[in_order] * block_size + rank
    sorted_ids = torch.full((most * block_size,), slots, dtype=torch.int32, device=flat.device)
    sorted_ids[places] = order.to(torch.int32)
    tiles = torch.arange(most, device=flat.device)
    expert_ids = torch.searchsorted(ends, tiles, right=True).clamp(max=num_experts - 1)
    return sorted_ids, expert_ids.to(torch.int32), (ends[-1:] * block_size).to(torch.int32)


def tile_fits(params, shape):
    """Tell whether a tile fits registers and its stages fit shared memory."""
    m, n, k = (params[f"BLOCK_SIZE_{axis}"] for axis in "MNK")
    staged = (m + n) * k * 2 * params["num_stages"]
    return 4 <= m * n / (32 * params["num_warps"]) <= 128 and staged <= 200_000
