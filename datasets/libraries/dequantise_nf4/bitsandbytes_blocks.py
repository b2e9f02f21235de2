"""Four-bit NormalFloat codes of bitsandbytes to numbers, two a byte, a scale a block."""

import torch
import triton
from bitsandbytes.backends.triton.kernels_4bit import dequant_nf4_kernel

from solkit.datasets.libraries.packages import check_installed

check_installed("bitsandbytes", "0.50.2")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "quantisation"
SHAPES = [
    {"rows": 4096, "cols": 4096, "blocksize": 64, "dtype": "bfloat16"},
    {"rows": 11008, "cols": 4096, "blocksize": 128, "dtype": "float16"},
    {"rows": 1000, "cols": 2112, "blocksize": 64, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-4}
SPACE = {"SPLIT_SIZE": [128, 256, 512, 1024, 2048, 4096, 8192], "num_warps": [1, 2, 4, 8]}
CODES = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
    -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
    0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip


def inputs(rows=4096, cols=4096, blocksize=64, dtype=torch.bfloat16, device="cuda"):
    packed = torch.randint(0, 256, (rows * cols // 2, 1), device=device, dtype=torch.uint8)
    absmax = torch.rand(rows * cols // blocksize, device=device) + 0.5
    return packed, absmax, [rows, cols], blocksize, dtype


def reference(packed, absmax, size, blocksize, dtype):
    codes = torch.tensor(CODES, device=packed.device)
    both = torch.cat((packed >> 4, packed & 15), dim=1).flatten().long()
    values = codes[both].view(-1, blocksize) * absmax[:, None]
    return values.view(size).to(dtype)


def kernel(packed, absmax, size, blocksize, dtype, *, SPLIT_SIZE=256, num_warps=4):
    out = torch.empty(size, dtype=dtype, device=packed.device)
    pairs = packed.numel()
    dequant_nf4_kernel[(triton.cdiv(pairs, SPLIT_SIZE),)](
        packed, out, absmax, pairs, out.numel(), blocksize, SPLIT_SIZE, num_warps=num_warps
    )
    return out
