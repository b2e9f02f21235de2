"""Contents of a launch's tensors, as far as a recording keeps them."""

from __future__ import annotations

import base64
import contextlib
import math
import zlib
from collections.abc import Iterator

import torch

from solkit.adapters.graph_captures import beside_captures
from solkit.core.recordings import TensorRecipe

FunctionsUnseen = torch._C.DisableTorchFunction
"""Within it no `TorchFunctionMode` or subclass of the program sees that tensors are asked things,
and no default device of the program's changes what is done."""

_MOST_LISTED = 65536
"""Integers that are kept: offsets, page tables, expert ids decide a kernel's work."""
_MOST_LISTED_BYTES = 4096
"""The same of 8-bit integers, which may be weights."""
_SAMPLED = 65536
"""Elements that statistics are made of."""
_USUAL = 1e4
"""Memory that was never written has values above it."""


def tensor_recipe(tensor: torch.Tensor) -> TensorRecipe:
    """Return how to draw a tensor's contents again; it waits for the GPU.

    The tensor stays as it is, and memory for at most 65,536 elements is taken. No mode of the
    program sees it.
    """
    with torch.no_grad(), _unseen():
        plain = tensor.detach().as_subclass(torch.Tensor)
        if plain.is_complex() or not plain.numel():
            return TensorRecipe()
        if plain.dtype.is_floating_point:
            return _float_recipe(_sample(plain))
        return _integer_recipe(plain)


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """Hide operators from the program's modes, and waiting from its alarm for that."""
    has_alarm = torch.cuda.is_initialized() and torch.cuda.get_sync_debug_mode()  # type: ignore[no-untyped-call]
    if has_alarm:
        torch.cuda.set_sync_debug_mode(0)
    try:
        with FunctionsUnseen(), torch._C._DisableTorchDispatch(), beside_captures():
            yield
    finally:
        if has_alarm:
            torch.cuda.set_sync_debug_mode(has_alarm)


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """Return some elements at equal distances along each axis, as doubles on the CPU."""
    sampled = tensor
    for axis in range(tensor.dim()):
        surplus = sampled.numel() / _SAMPLED
        if surplus > 1:
            step = min(math.ceil(surplus), sampled.shape[axis])
            sampled = sampled[(slice(None),) * axis + (slice(None, None, step),)]
    return sampled.cpu().double()


def _float_recipe(values: torch.Tensor) -> TensorRecipe:
    finite = values[values.isfinite()]
    share = float(torch.isneginf(values).double().mean())
    if not finite.numel() or float(finite.abs().max()) > _USUAL:
        return TensorRecipe()
    mean, std = float(finite.mean()), float(finite.std(correction=0))
    return TensorRecipe(mean, std, float(finite.min()), float(finite.max()), share)


def _integer_recipe(tensor: torch.Tensor) -> TensorRecipe:
    most = _MOST_LISTED_BYTES if tensor.element_size() == 1 else _MOST_LISTED
    if tensor.numel() <= most:
        values = tensor.cpu().to(torch.int64).contiguous().numpy().tobytes()
        return TensorRecipe(values=base64.b64encode(zlib.compress(values, 9)).decode())
    sampled = _sample(tensor)
    return TensorRecipe(low=float(sampled.min()), high=float(sampled.max()))
