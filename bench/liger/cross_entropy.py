"""Liger-Kernel's cross entropy (forward), with its launch options.

A parameter of 0 leaves Liger's own choice, which is the default.
"""

import torch
import triton
from liger_kernel.ops import cross_entropy as op

SPACE = {
    "BLOCK_SIZE": [0, 512, 1024, 2048, 4096, 8192, 16384, 32768],
    "num_warps": [0, 1, 2, 4, 8, 16, 32],
    "num_stages": [0, 1, 2, 3, 4],
}
SHAPES = [
    {"M": 4096, "V": 32000},
    {"M": 2048, "V": 128256},
    {"M": 8192, "V": 8192},
    {"M": 256, "V": 50304},
]
HELD_OUT_SHAPES = [{"M": 1000, "V": 100000}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


class Launched:
    """A Triton kernel with some launch options replaced."""

    def __init__(self, kernel, **options):
        self.kernel = kernel
        self.options = {name: value for name, value in options.items() if value}

    def __getitem__(self, grid):
        return lambda *args, **given: self.kernel[grid](*args, **{**given, **self.options})


def reference(logits, target):
    return torch.nn.functional.cross_entropy(logits.float(), target, reduction="none").to(
        logits.dtype
    )


def inputs(M=4096, V=32000, dtype=torch.bfloat16, device="cuda"):
    logits = torch.randn(M, V, dtype=dtype, device=device)
    return logits, torch.randint(0, V, (M,), device=device)


def valid(params, shape):
    """At least one element a thread, and no block beyond the row's next power of two."""
    block = params["BLOCK_SIZE"]
    if not block:
        return True
    return 32 * max(params["num_warps"], 4) <= block < 2 * shape["V"]


def kernel(logits, target, *, BLOCK_SIZE=0, num_warps=0, num_stages=0):
    """As Liger's launcher does without a gradient, but for its checks, which wait for the GPU."""
    rows, columns = logits.shape
    loss = torch.zeros(rows, dtype=logits.dtype, device=logits.device)
    block = min(op.MAX_FUSED_SIZE, triton.next_power_of_2(columns))
    launched = Launched(
        *(op.liger_cross_entropy_kernel,),
        BLOCK_SIZE=BLOCK_SIZE,
        num_warps=num_warps,
        num_stages=num_stages,
    )
    launched[(rows,)](
        *(logits, logits.stride(0), target, target.stride(0), None, loss, None, loss.stride(0)),
        *(None, 0, None, 0, columns, rows, rows, 0.0, -100),
        lse_square_scale=0.0,
        label_smoothing=0.0,
        reduction="none",
        softcap=None,
        RETURN_Z_LOSS=False,
        RETURN_TOKEN_ACCURACY=False,
        RETURN_PREDICTED_TOKENS=False,
        BLOCK_SIZE=block,
        HAS_WEIGHT=False,
        HAS_SOFTCAPPING=False,
        HAS_GRADIENTS=False,
        num_warps=32,
    )
    return loss
