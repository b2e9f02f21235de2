"""A product of narrow matrices with a bf16 result, as GEMM tuners time it.

`kernel` launches AITER's Triton kernels, of a checkout of https://github.com/ROCm/aiter in
PYTHONPATH.
"""

from __future__ import annotations

import importlib.util
import sys
import types

import torch


def reference(a, b, bias=False, scheme=""):
    """Return a b^T in bf16, summed in fp32; a is (B, M, K), b is (B, N, K)."""
    return torch.matmul(a.float(), b.float().transpose(-1, -2)).bfloat16()


def inputs(B=1, M=1024, N=1024, K=1024, dtype=torch.bfloat16, bias=False, scheme="", device="cuda"):
    """Make random factors of a dtype; integers cover the range of 8 bits.

    A bias and the scales of a scheme are no inputs: they are less than a percent of the bytes.
    """
    if dtype is torch.int8:
        draw = [torch.randint(-127, 128, size, device=device) for size in ((B, M, K), (B, N, K))]
    else:
        draw = [torch.randn(size, device=device) for size in ((B, M, K), (B, N, K))]
    return *(factor.to(dtype) for factor in draw), bias, scheme


def kernel(a, b, bias=False, scheme=""):
    """Launch AITER's Triton kernel of 16-bit factors, or of 8-bit ones with scales of blocks."""
    _without_its_own_init("aiter")
    a, b = a[0], b[0]
    if scheme != "blockscale_bpreshuffle":
        from aiter.ops.triton.gemm.basic.gemm_a16w16 import gemm_a16w16

        added = torch.empty(len(b), dtype=b.dtype, device=b.device) if bias else None
        return gemm_a16w16(a, b, bias=added, dtype=torch.bfloat16)[None]
    from aiter.ops.triton.gemm.basic.gemm_a8w8_blockscale import gemm_a8w8_blockscale_preshuffle

    (m, k), n = a.shape, len(b)
    blocks = [-(-size // 128) for size in (n, k)]
    of_a = torch.empty(blocks[1], m, dtype=torch.float32, device=a.device).T
    of_b = torch.empty(*blocks, dtype=torch.float32, device=a.device)
    shuffled = b.reshape(n // 16, k * 16)
    return gemm_a8w8_blockscale_preshuffle(a, shuffled, of_a, of_b, is_x_scale_tranposed=True)[None]


def _without_its_own_init(name):
    """Make a package's modules importable without its ``__init__``, which builds C++ modules."""
    if name not in sys.modules:
        spec = importlib.util.find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"{name} is in no folder of PYTHONPATH")
        package = types.ModuleType(name)
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules[name] = package
