"""The scan of accelerated-scan: a channel's contiguous sequence a program, chunk after chunk."""

import torch
from accelerated_scan.scalar import forward_scan

from solkit.datasets.libraries.packages import check_installed

check_installed("accelerated-scan", "0.3.1")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "scan"
SHAPES = [
    {"B": 8, "C": 1024, "seqlen": 2048, "dtype": "float32"},
    {"B": 2, "C": 512, "seqlen": 16384, "dtype": "bfloat16"},
    {"B": 32, "C": 300, "seqlen": 511, "dtype": "float32"},
]
TOLERANCE = {"rtol": 4e-2, "atol": 1e-1}
SPACE = {"BLOCK": [128, 256, 512, 1024, 2048, 4096], "num_warps": [1, 2, 4, 8, 16]}


def inputs(B=8, C=1024, seqlen=2048, dtype=torch.float32, device="cuda"):
    gates = 0.6 + 0.35 * torch.rand(B, C, seqlen, device=device)
    return gates.to(dtype), torch.randn(B, C, seqlen, dtype=dtype, device=device)


def reference(gates, tokens):
    gain, y = gates.float(), tokens.float()
    distance = 1
    while distance < tokens.shape[2]:
        earlier_y = torch.nn.functional.pad(y, (distance, 0))[..., :-distance]
        earlier_gain = torch.nn.functional.pad(gain, (distance, 0))[..., :-distance]
        y, gain = y + gain * earlier_y, gain * earlier_gain
        distance *= 2
    return y.to(tokens.dtype)


class Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx, forget, tokens, BLOCK, num_warps):
        B, C, T = forget.shape
        states = torch.empty_like(tokens)
        forward_scan[(B, C)](
            forget, tokens, states, seqlen=T, BLOCK=BLOCK, enable_fp_fusion=False,
            num_warps=num_warps,
        )  # fmt: skip
        ctx.save_for_backward(forget, states)
        return states


def kernel(gates, tokens, *, BLOCK=2048, num_warps=4):
    return Scan.apply(gates, tokens, BLOCK, num_warps)
