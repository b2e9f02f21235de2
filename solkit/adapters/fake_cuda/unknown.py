"""Ops whose result depends on data: answered from known values, else by a guess."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy.typing as npt
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from solkit.adapters.fake_cuda.guesses import guess
from solkit.adapters.fake_cuda.values import propagate, recall, remember
from solkit.errors import UnsupportedError

__all__ = ["KnownValues", "numpy_array"]

_aten = torch.ops.aten


class KnownValues(TorchDispatchMode):
    """Carries the real values of small tensors along, and guesses where a value is unknown."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in _GUESSES:
            return _GUESSES[func](*args, **kwargs)
        if func is _aten.index.Tensor:
            out = func(args[0], _without_masks(args[1]))
        else:
            out = func(*args, **kwargs)
        if isinstance(func, torch._ops.OpOverload):
            propagate(func, args, kwargs, out)
        return out


def _item(tensor: torch.Tensor) -> Any:
    """``tensor.item()``: its known value; else True, 1 or 1.0."""
    known = recall(tensor)
    if known is not None:
        with _disable_current_modes():
            value = known.value.item()
        if known.drawn:
            guess(f"random integers were drawn on the CPU, where a GPU draws others: {value} read")
        guessed = known.guessed
    else:
        # `torch.bool.is_floating_point` is False and bool(1) is True
        value = True if tensor.dtype == torch.bool else 1.0 if tensor.is_floating_point() else 1
        guessed = True
    if guessed:
        guess(f"a {tensor.dtype} value read from a tensor was guessed to be {value}")
    return value


def numpy_array(tensor: torch.Tensor, *, force: bool = False) -> npt.NDArray[Any]:
    """``tensor.numpy()``: torch would read the memory that a fake tensor has not."""
    known = recall(tensor)
    if known is None:
        raise UnsupportedError("a tensor's contents are read as an array, and are not known here")
    if known.guessed or known.drawn:
        guess("a tensor read as an array holds guessed values")
    with _disable_current_modes():
        return known.value.numpy(force=force)


def _equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    same = left.shape == right.shape
    if same:
        guess("two tensors were guessed to be equal")
    return same


def _nonzero(tensor: torch.Tensor) -> torch.Tensor:
    known = recall(tensor)
    if known is not None:
        with _disable_current_modes():
            value = known.value.nonzero()
        found = tensor.new_empty(tuple(value.shape), dtype=torch.int64)
        remember(cast(FakeTensor, found), value, known.guessed)
        return found
    guess("all elements of a mask were guessed to be set")
    return tensor.new_empty((tensor.numel(), tensor.dim()), dtype=torch.int64)


def _without_masks(indices: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Boolean indices as the integer ones that select the same (``x[mask]``)."""
    integers: list[torch.Tensor | None] = []
    for index in indices:
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            integers.append(index)
        else:
            integers.extend(_nonzero(index).unbind(1))
    return integers


def _masked_select(tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    guess("all elements of a mask were guessed to be set")
    return tensor.new_empty((torch.broadcast_shapes(tensor.shape, mask.shape).numel(),))


_GUESSES: dict[Any, Callable[..., Any]] = {
    _aten._local_scalar_dense.default: _item,
    _aten.equal.default: _equal,
    _aten.allclose.default: lambda left, right, *_, **__: _equal(left, right),
    _aten.nonzero.default: _nonzero,
    _aten.masked_select.default: _masked_select,
}
