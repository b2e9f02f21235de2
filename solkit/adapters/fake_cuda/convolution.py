"""The layout of convolutions' results, for which fake tensors ask a library that is not there."""

from __future__ import annotations

from typing import Any

import torch


def convolution_layout(x: torch.Tensor, weight: torch.Tensor, _backend: Any) -> torch.memory_format:
    """Return the layout that cuDNN gives: channels last if the input or the weight is so.

    It replaces ``torch._C._conv_determine_backend_memory_format``, which finds no cuDNN and then
    says that results are contiguous. Source: ``cudnn_conv_suggest_memory_format`` in
    aten/src/ATen/native/ConvUtils.h.
    """
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim())
    if last is not None and any(_has_layout(tensor, last) for tensor in (x, weight)):
        return last
    return torch.contiguous_format


def _has_layout(tensor: torch.Tensor, layout: torch.memory_format) -> bool:
    return tensor.is_contiguous(memory_format=layout) and not tensor.is_contiguous()
