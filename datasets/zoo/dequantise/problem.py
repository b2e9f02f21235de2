"""Four-bit codes, two a byte and the even column low, to (code - 8) × the scale of a group."""

import torch

KIND = "quantisation"
SHAPES = [
    {"M": 4096, "N": 4096},
    {"M": 1536, "N": 8960, "dtype": "bfloat16"},
    {"M": 333, "N": 1152, "dtype": "float32"},
    {"M": 11008, "N": 4096},
    {"M": 8192, "N": 8192, "dtype": "bfloat16"},
    {"M": 5120, "N": 5120, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-3}
GROUP = 128


def reference(packed, scale):
    codes = torch.stack((packed & 15, packed >> 4), dim=2).flatten(1)
    wide = scale.float().repeat_interleave(GROUP, dim=1)
    return ((codes.float() - 8.0) * wide).to(scale.dtype)


def inputs(M=4096, N=4096, dtype=torch.float16, device="cuda"):
    packed = torch.randint(0, 256, (M, N // 2), device=device, dtype=torch.uint8)
    return packed, torch.rand(M, N // GROUP, dtype=dtype, device=device) + 0.5
