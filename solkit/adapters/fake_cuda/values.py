"""The contents of small fake tensors, where they follow from the program."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

__all__ = ["forget", "known_value", "propagate", "recall", "remember"]

_aten = torch.ops.aten

_KNOWN_INTEGERS, _KNOWN_FLOATS = 1 << 22, 1 << 20
"""Elements beyond which a result is not computed: 4 Mi integers take some 10 ms an op."""

_writes: Counter[int] = Counter()  # storage handle -> writes that torch did not see


@dataclass(frozen=True)
class _Known:
    """A fake tensor's real value, good while nothing has written to the tensor."""

    value: torch.Tensor
    guessed: bool
    version: int
    writes: int
    drawn: bool = False  # from random integers


def known_value(tensor: torch.Tensor) -> npt.NDArray[Any] | None:
    """The contents of a tensor where they follow from the program for sure."""
    known = recall(tensor)
    if known is None or known.guessed:
        return None
    with _disable_current_modes():
        return known.value.numpy(force=True)


def forget(tensor: torch.Tensor) -> None:
    """A kernel that torch does not see may have written to `tensor`: its value is unknown."""
    _writes[tensor.untyped_storage()._cdata] += 1


def remember(tensor: FakeTensor, value: torch.Tensor, guessed: bool, drawn: bool = False) -> None:
    """Keep the contents of a tensor."""
    if tensor.is_inference() or tensor.shape != value.shape:
        return
    writes = _writes[tensor.untyped_storage()._cdata]
    known = _Known(value, guessed, tensor._version, writes, drawn)
    tensor._solkit_known = known  # type: ignore[attr-defined]


def recall(tensor: torch.Tensor) -> _Known | None:
    """The contents of a tensor, known or guessed; ``None`` where there is neither."""
    if not isinstance(tensor, FakeTensor):
        return _Known(tensor, False, 0, 0) if _is_small([tensor]) else None
    known: _Known | None = getattr(tensor, "_solkit_known", None)
    if known is None or tensor.is_inference():
        return None
    writes = _writes[tensor.untyped_storage()._cdata]
    return known if (known.version, known.writes) == (tensor._version, writes) else None


def propagate(
    func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
) -> None:
    """Compute `func` on real values where all its inputs are known, and remember the results."""
    fakes = [leaf for leaf in tree_leaves(out) if isinstance(leaf, FakeTensor)]
    if not fakes or not _is_small(fakes) or not _is_pure(func):
        return
    inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    known = [recall(tensor) for tensor in inputs]
    if any(fact is None for fact in known):
        _count_as_all_true(func, inputs, fakes)
        return
    guessed = any(fact.guessed for fact in known if fact is not None)
    drawn = any(fact.drawn for fact in known if fact is not None) or _draws_integers(func)
    with _disable_current_modes():
        real_args, real_kwargs = tree_map(_real, (args, kwargs))
        real = func(*real_args, **real_kwargs)
        values = [leaf.clone() for leaf in tree_leaves(real) if isinstance(leaf, torch.Tensor)]
    for fake, value in zip(fakes, values, strict=True):
        remember(fake, value, guessed, drawn)


def _is_small(tensors: Sequence[torch.Tensor]) -> bool:
    floats = any(t.dtype.is_floating_point or t.dtype.is_complex for t in tensors)
    limit = _KNOWN_FLOATS if floats else _KNOWN_INTEGERS
    return sum(tensor.numel() for tensor in tensors) <= limit


_INTEGER_DRAWS = (_aten.randint, _aten.randperm)
"""Random, yet computed: indices and page tables decide what a gather must read."""


def _draws_integers(func: torch._ops.OpOverload) -> bool:
    return func.overloadpacket in _INTEGER_DRAWS


def _is_pure(func: torch._ops.OpOverload) -> bool:
    """Whether the result of `func` follows from its arguments alone and nothing is written."""
    return _draws_integers(func) or not (
        func._schema.is_mutable
        or torch.Tag.nondeterministic_seeded in func.tags
        or "empty" in func._schema.name
    )


def _real(argument: Any) -> Any:
    if isinstance(argument, torch.Tensor):
        known = recall(argument)
        assert known is not None
        return known.value
    return torch.device("cpu") if isinstance(argument, torch.device) else argument


_COUNTS = (_aten.sum.default, _aten.sum.dim_IntList, _aten.count_nonzero.default)


def _count_as_all_true(
    func: torch._ops.OpOverload, inputs: list[torch.Tensor], fakes: list[FakeTensor]
) -> None:
    """Guess that a mask selects everything: the usual case, and an upper bound for its count."""
    if func in _COUNTS and inputs[0].dtype == torch.bool and fakes[0].numel() > 0:
        with _disable_current_modes():
            count = inputs[0].numel() // fakes[0].numel()
            value = torch.full(tuple(fakes[0].shape), count, dtype=fakes[0].dtype)
        remember(fakes[0], value, guessed=True)
