"""The short causal convolution of flash-linear-attention, with its SiLU."""

import torch
import triton
from fla.modules.causal_conv1d.ops import causal_conv1d_fwd_kernel

SHAPES = [{"B": 4, "T": 2048, "D": 2048, "W": 4}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}
SPACE = {
    "BT": [8, 16, 32, 64, 128],
    "BD": [16, 32, 64, 128, 256],
    "num_warps": [1, 2, 4, 8, 16],
}
WITHOUT_TUNER = causal_conv1d_fwd_kernel.fn.fn


def valid(params, shape):
    return 2 <= params["BT"] * params["BD"] / (32 * params["num_warps"]) <= 64


def inputs(B=4, T=2048, D=2048, W=4, device="cuda"):
    x = torch.randn(B, T, D, dtype=torch.bfloat16, device=device)
    return x, torch.randn(D, W, dtype=torch.bfloat16, device=device)


def reference(x, weight):
    width = weight.shape[1]
    padded = torch.nn.functional.pad(x.float(), (0, 0, width - 1, 0))
    taps = (padded[:, i : i + x.shape[1]] * weight[:, i].float() for i in range(width))
    return torch.nn.functional.silu(sum(taps)).to(x.dtype)


def kernel(x, weight, *, BT=64, BD=32, num_warps=4):
    B, T, D = x.shape
    y = torch.empty_like(x)
    WITHOUT_TUNER[(triton.cdiv(D, BD), triton.cdiv(T, BT), B)](
        x, y, weight, None, None, None, None, None, B, T, *x.stride(), D=D, W=weight.shape[1],
        BT=BT, BW=triton.next_power_of_2(weight.shape[1]), BD=BD, ACTIVATION="silu",
        HAS_WEIGHT=True, HAS_BIAS=False, HAS_RESIDUAL=False, USE_INITIAL_STATE=False,
        IS_VARLEN=False, num_warps=num_warps,
    )  # fmt: skip
    return y
