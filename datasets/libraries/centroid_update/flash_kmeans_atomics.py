"""Flash-kmeans' update of centres: a point a program, added atomically to its centre's sum."""

import torch
from flash_kmeans.centroid_update_triton import _centroid_update_kernel

from solkit.datasets.libraries.packages import check_installed

check_installed("flash-kmeans", "0.3.1")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "indexing"
SHAPES = [
    {"B": 1, "N": 65536, "K": 1024, "D": 128, "dtype": "float16"},
    {"B": 4, "N": 8192, "K": 16, "D": 256, "dtype": "float32"},
    {"B": 1, "N": 100003, "K": 8192, "D": 64, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 2e-3, "atol": 5e-2}
SPACE = {"BLOCK_D": [16, 32, 64, 128, 256], "num_warps": [1, 2, 4, 8]}


def inputs(B=1, N=65536, K=1024, D=128, dtype=torch.float16, device="cuda"):
    x = torch.randn(B, N, D, dtype=dtype, device=device)
    return x, torch.randint(0, K, (B, N), device=device, dtype=torch.int32), K


def reference(x, cluster_ids, K):
    B, N, D = x.shape
    places = cluster_ids.long() + K * torch.arange(B, device=x.device)[:, None]
    sums = torch.zeros(B * K, D, device=x.device).index_add_(
        0, places.flatten(), x.float().view(-1, D)
    )
    counts = torch.zeros(B * K, dtype=torch.int32, device=x.device)
    counts.index_add_(0, places.flatten(), torch.ones(B * N, dtype=torch.int32, device=x.device))
    return sums.view(B, K, D), counts.view(B, K)


def kernel(x, cluster_ids, K, *, BLOCK_D=128, num_warps=4):
    B, N, D = x.shape
    sums = torch.zeros((B, K, D), device=x.device, dtype=torch.float32)
    counts = torch.zeros((B, K), device=x.device, dtype=torch.int32)
    _centroid_update_kernel[(B * N,)](
        x, cluster_ids, sums, counts, *x.stride(), *sums.stride(), *counts.stride(),
        B, N, D, K, BLOCK_D=BLOCK_D, num_warps=num_warps,
    )  # fmt: skip
    return sums, counts
