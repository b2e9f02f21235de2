"""Shapes and strides of the tensors that a candidate's function gets."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from solkit.kernelfiles import Workload

Layouts = Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]
"""Shape and strides, in elements, by the function's parameter: ``x``, ``parts[0]``."""


def input_layouts(workload: Workload) -> Layouts:
    """Return layouts of the inputs; empty where the candidate's parameters have no names."""
    layouts = {}
    for name, value in _named_inputs(workload).items():
        is_list = isinstance(value, (list, tuple))
        pairs = [(f"{name}[{n}]", v) for n, v in enumerate(value)] if is_list else [(name, value)]
        for named, tensor in pairs:
            if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided:
                layouts[named] = tuple(tensor.shape), tensor.stride()
    return layouts


def _named_inputs(workload: Workload) -> Mapping[str, Any]:
    if workload.kernel is None:
        return {}
    try:
        signature = inspect.signature(workload.kernel)
        return signature.bind_partial(*workload.args, **workload.kwargs).arguments
    except (TypeError, ValueError):
        return {}
