"""Batch norm on fake tensors, for whose shapes torch runs some twenty ops a layer."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import torch
from torch._decomp import meta_table


def fake_batch_norm(aten: torch.library.Library) -> None:
    """Override ``native_batch_norm``'s meta kernel as long as `aten` exists."""
    # some versions of torch have one in Python
    aten.impl("native_batch_norm", _batch_norm, "Meta", allow_override=True)
    # else fake tensors run the decomposition (FakeTensorMode._dispatch_impl)
    meta_table[torch.ops.aten.native_batch_norm.default] = _batch_norm


def _batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the result, the means and the inverse deviations, as in Normalization.cu.

    Raises:
        RuntimeError: a tensor with one element per channel has another size.
    """
    del momentum, eps
    channels = x.shape[1]
    for name, tensor in (
        *(("weight", weight), ("bias", bias)),
        *(("running_mean", running_mean), ("running_var", running_var)),
    ):
        if tensor is not None and tensor.numel() != channels:
            raise RuntimeError(f"{name} should contain {channels} elements not {tensor.numel()}")
    if not training and (running_mean is None or running_var is None):
        raise RuntimeError("running_mean and running_var must be defined in evaluation mode")
    wide = torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype
    mean, deviation = (x.new_empty((channels,), dtype=wide) for _ in range(2))
    return torch.empty_like(x), mean, deviation
