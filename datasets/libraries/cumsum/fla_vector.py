"""Running sums along time of flash-linear-attention: the steps of a head are far apart."""

import torch
import triton
from fla.ops.utils.cumsum import chunk_global_cumsum_vector_kernel

from solkit.datasets.libraries.packages import check_installed

check_installed("fla-core", "0.6.0")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "scan"
SHAPES = [
    {"B": 4, "T": 2048, "H": 8, "S": 128, "dtype": "float32"},
    {"B": 1, "T": 16384, "H": 16, "S": 64, "dtype": "bfloat16"},
    {"B": 8, "T": 777, "H": 5, "S": 96, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 5e-2}
SPACE = {
    "BT": [16, 32, 64, 128],
    "BS": [16, 32, 64],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3, 4],
}
HEURISTICS = chunk_global_cumsum_vector_kernel
WITHOUT_TUNER = HEURISTICS.fn.fn


def inputs(B=4, T=2048, H=8, S=128, dtype=torch.float32, device="cuda"):
    return (torch.randn(B, T, H, S, dtype=dtype, device=device),)


def reference(s):
    return s.float().cumsum(dim=1)


def kernel(s, *, BT=32, BS=32, num_warps=4, num_stages=2):
    B, T, H, S = s.shape
    z = torch.empty_like(s, dtype=torch.float)
    args = {"s": s, "o": z, "scale": None, "cu_seqlens": None}
    flags = {name: rule(args) for name, rule in HEURISTICS.values.items()}
    WITHOUT_TUNER[(triton.cdiv(S, BS) * B * H,)](
        **args, T=T, B=B, H=H, S=S, BT=BT, BS=BS, REVERSE=False, **flags, num_warps=num_warps,
        num_stages=num_stages,
    )  # fmt: skip
    return z
