"""The layer norm of flash-linear-attention: tiles of short rows."""

import torch
import triton
from fla.modules.norm.layernorm import layer_norm_fwd_kernel

SHAPES = [{"T": 65536, "D": 256}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}
SPACE = {"BT": [1, 2, 4, 8, 16, 32, 64, 128], "num_warps": [1, 2, 4, 8, 16]}
WITHOUT_TUNER = layer_norm_fwd_kernel.fn


def valid(params, shape):
    tile = params["BT"] * triton.next_power_of_2(shape["D"])
    return 1 <= tile / (32 * params["num_warps"]) <= 256


def inputs(T=65536, D=256, device="cuda"):
    x = torch.randn(T, D, dtype=torch.bfloat16, device=device)
    weight, bias = (torch.randn(D, dtype=torch.bfloat16, device=device) for _ in range(2))
    return x, weight, bias


def reference(x, weight, bias):
    whole = (x.float(), x.shape[1:], weight.float(), bias.float(), 1e-5)
    return torch.nn.functional.layer_norm(*whole).to(x.dtype)


def kernel(x, weight, bias, *, BT=32, num_warps=4):
    T, D = x.shape
    y = torch.empty_like(x)
    mean, rstd = (torch.empty(T, dtype=torch.float32, device=x.device) for _ in range(2))
    WITHOUT_TUNER[(triton.cdiv(T, BT),)](
        x, y, weight, bias, None, None, mean, rstd, 1e-5, T, G=1, D=D, BT=BT,
        BD=triton.next_power_of_2(D), NB=triton.cdiv(T, 2048), IS_RMS_NORM=False,
        HAS_RESIDUAL=False, STORE_RESIDUAL_OUT=False, HAS_WEIGHT=True, HAS_BIAS=True,
        num_warps=num_warps,
    )  # fmt: skip
    return y
