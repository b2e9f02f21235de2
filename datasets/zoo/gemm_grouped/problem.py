"""Products of groups of rows, each with its own weights: x[start:end] @ w[g] for every group g."""

import itertools

import torch

KIND = "matmul"
# The groups' sizes: even; skewed, group g having (g + 1) shares; or sparse, every third empty.
SHAPES = [
    {"T": 4096, "G": 8, "N": 2048, "K": 1024, "split": "even", "dtype": "bfloat16"},
    {"T": 8192, "G": 64, "N": 512, "K": 1024, "split": "skewed", "dtype": "float16"},
    {"T": 2048, "G": 32, "N": 1408, "K": 2048, "split": "sparse", "dtype": "bfloat16"},
    {"T": 500, "G": 16, "N": 768, "K": 512, "split": "skewed", "dtype": "bfloat16"},
    {"T": 100, "G": 10, "N": 264, "K": 200, "split": "sparse", "dtype": "float16"},
    {"T": 1021, "G": 7, "N": 331, "K": 257, "split": "skewed", "dtype": "float16"},
    {"T": 4096, "G": 16, "N": 512, "K": 512, "split": "even", "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}  # outputs of order one


def reference(x, w, offsets, sizes):
    return torch.cat([rows @ weights for rows, weights in zip(x.split(sizes), w)])


def inputs(T=4096, G=8, N=2048, K=1024, split="even", dtype=torch.bfloat16, device="cuda"):
    """Rows in the order of their groups, weights, where the groups start, and their sizes.

    Kernels use the offsets, on the GPU: where a router makes the groups, the host has no sizes.
    """
    shares = [{"even": 1, "skewed": g + 1, "sparse": g % 3}[split] for g in range(G)]
    starts = [T * sum(shares[:g]) // sum(shares) for g in range(G + 1)]
    x = torch.randn(T, K, dtype=dtype, device=device)
    w = torch.randn(G, K, N, dtype=dtype, device=device) * K**-0.5
    offsets = torch.tensor(starts, dtype=torch.int32, device=device)
    return x, w, offsets, [b - a for a, b in itertools.pairwise(starts)]


def itemsize(shape):
    """Bytes of an input's element."""
    return 4 if "float32" in str(shape["dtype"]) else 2
