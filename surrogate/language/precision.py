"""Precision in which a network learns, and the kernels that attend."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

__all__ = ["attention", "precision"]


def precision(device: torch.device, *, is_foreign: bool = False) -> contextlib.ExitStack:
    """Compute in bf16 on a GPU; a CPU computes in fp32.

    Args:
        device: that computes.
        is_foreign: see `attention`.
    """
    stack = contextlib.ExitStack()
    if device.type == "cuda":
        stack.enter_context(torch.autocast("cuda", torch.bfloat16))
        stack.enter_context(attention(device, is_foreign=is_foreign))
    return stack


def attention(
    device: torch.device, *, is_foreign: bool = False
) -> contextlib.AbstractContextManager[Any]:
    """Return the kernels of attention that a GPU may use.

    That of cuDNN is left out: it prepares itself anew for each number and length of texts. Layers
    that are computed again for their gradients must find the kernels that they had before.

    Args:
        device: that computes.
        is_foreign: whether the backbone is from elsewhere. It may have fewer heads of
            keys than of queries, which without a mask only the flash kernel knows: all others
            would write down what each token makes of each other.
    """
    if device.type != "cuda":
        return contextlib.nullcontext()
    flash = [SDPBackend.FLASH_ATTENTION] if is_foreign else []
    return sdpa_kernel([*flash, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
