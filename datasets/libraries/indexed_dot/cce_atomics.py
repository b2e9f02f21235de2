"""Apple's cut cross-entropy: each token's dot with the weights of its target, by atomics."""

import torch
import triton
from cut_cross_entropy.indexed_dot import _indexed_neg_dot_forward_kernel

from solkit.datasets.libraries.packages import check_installed

check_installed("cut-cross-entropy", "25.1.1")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "indexing"
SHAPES = [
    {"B": 8192, "D": 4096, "V": 32000, "dtype": "bfloat16"},
    {"B": 32768, "D": 1024, "V": 50257, "dtype": "float16"},
    {"B": 2047, "D": 2304, "V": 256000, "dtype": "bfloat16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-1}
SPACE = {"BLOCK_B": [16, 32, 64, 128], "BLOCK_D": [32, 64, 128, 256], "num_warps": [1, 2, 4, 8]}
HEURISTICS = _indexed_neg_dot_forward_kernel.fn


def inputs(B=8192, D=4096, V=32000, dtype=torch.bfloat16, device="cuda"):
    e = torch.randn(B, D, dtype=dtype, device=device)
    c = torch.randn(V, D, dtype=dtype, device=device) * D**-0.5
    return e, c, torch.randint(0, V, (B,), device=device)


def reference(e, c, inds):
    return -(e.float() * c[inds].float()).sum(dim=-1)


def kernel(e, c, inds, *, BLOCK_B=32, BLOCK_D=128, num_warps=4):
    B, D = e.shape
    out = e.new_zeros((B,), dtype=torch.float32)

    def grid(META):
        return (triton.cdiv(B, META["BLOCK_B"]) * triton.cdiv(D, META["BLOCK_D"]),)

    HEURISTICS[grid](
        e, c, inds, None, out, B, D, e.stride(0), e.stride(1), c.stride(0), c.stride(1),
        inds.stride(0), 1, B_BIN=12, SHIFT=False, BLOCK_B=BLOCK_B, BLOCK_D=BLOCK_D,
        num_warps=num_warps,
    )  # fmt: skip
    return out
