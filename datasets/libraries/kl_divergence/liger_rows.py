"""Liger's Kullback-Leibler divergence: one sum for each row of two matrices."""

import torch
from liger_kernel.ops.kl_div import _kldiv_kernel_forward

from solkit.datasets.libraries.packages import check_installed

check_installed("liger-kernel", "0.8.5")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "reduction"
SHAPES = [
    {"BT": 8192, "V": 32000, "dtype": "bfloat16"},
    {"BT": 2048, "V": 128256, "dtype": "float32"},
    {"BT": 16384, "V": 4096, "dtype": "float32"},
    {"BT": 1024, "V": 10007, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-4}
SPACE = {
    "BLOCK_SIZE": [512, 1024, 2048, 4096, 8192, 16384, 32768],
    "num_warps": [2, 4, 8, 16, 32],
}


def inputs(BT=8192, V=32000, dtype=torch.bfloat16, device="cuda"):
    y_pred, y_true = (torch.randn(BT, V, dtype=dtype, device=device) for _ in range(2))
    return y_pred.log_softmax(dim=-1), y_true.softmax(dim=-1)


def reference(y_pred, y_true):
    y_true = y_true.float()
    return (y_true * (y_true.clamp(min=1e-10).log() - y_pred.float())).sum(dim=-1)


def kernel(y_pred, y_true, *, BLOCK_SIZE=8192, num_warps=8):
    BT, V = y_pred.shape
    output_tensor = torch.zeros((BT,), device=y_pred.device, dtype=torch.float32)
    _kldiv_kernel_forward[(BT,)](
        y_pred, y_pred.stride(0), y_true, y_true.stride(0), output_tensor,
        output_tensor.stride(0), V, eps=1e-10, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps,
        log_target=False, reduction=3,
    )  # fmt: skip
    return output_tensor
