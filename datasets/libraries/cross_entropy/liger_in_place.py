"""Liger's cross-entropy: the gradient overwrites the logits; block and warps alone may vary."""

import torch
import torch.nn.functional as F
from liger_kernel.ops.cross_entropy import liger_cross_entropy_kernel

from solkit.datasets.libraries.packages import check_installed

check_installed("liger-kernel", "0.8.5")
__all__ = ["KIND", "OUTPUTS", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "softmax"
OUTPUTS = ("logits",)
SHAPES = [
    {"BT": 4096, "V": 32000, "dtype": "bfloat16"},
    {"BT": 2048, "V": 128256, "dtype": "bfloat16"},
    {"BT": 8192, "V": 5003, "dtype": "float32"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-4}
SPACE = {
    "BLOCK_SIZE": [1024, 2048, 4096, 8192, 16384, 32768],
    "num_warps": [4, 8, 16, 32],
}


def inputs(BT=4096, V=32000, dtype=torch.bfloat16, device="cuda"):
    logits = torch.randn(BT, V, dtype=dtype, device=device)
    return logits, torch.randint(0, V, (BT,), device=device)


def reference(logits, target):
    share = torch.softmax(logits.float(), dim=-1)
    share -= F.one_hot(target, logits.shape[1])
    logits.copy_(share / logits.shape[0])


def kernel(logits, target, *, BLOCK_SIZE=32768, num_warps=32):
    rows, columns = logits.shape
    loss = torch.zeros(rows, dtype=logits.dtype, device=logits.device)
    liger_cross_entropy_kernel[(rows,)](
        X_ptr=logits, X_stride=logits.stride(-2), Y_ptr=target, Y_stride=target.stride(-1),
        weight_ptr=None, loss_ptr=loss, z_loss_ptr=None, loss_stride=loss.stride(-1),
        token_accuracy_ptr=None, token_accuracy_stride=0, predicted_tokens_ptr=None,
        predicted_tokens_stride=0, n_cols=columns, n_non_ignore=rows,
        sum_non_ignore_weight=rows, weight_sum=0.0, ignore_index=-100, lse_square_scale=0.0,
        label_smoothing=0.0, reduction="mean", softcap=None, RETURN_Z_LOSS=False,
        RETURN_TOKEN_ACCURACY=False, RETURN_PREDICTED_TOKENS=False, BLOCK_SIZE=BLOCK_SIZE,
        HAS_WEIGHT=False, HAS_SOFTCAPPING=False, HAS_GRADIENTS=True, num_warps=num_warps,
    )  # fmt: skip
