"""Mode in which ops whose result or shape depends on data get known values, else a guess."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from solkit.adapters.fake_cuda.composites import taken_apart
from solkit.adapters.fake_cuda.contents import (
    KnownContents,
    computing_really,
    recall_contents,
    remember_contents,
)
from solkit.adapters.fake_cuda.data_dependent import (
    ANSWERS,
    SHAPE_GUESSES,
    integer_indices,
    make_holding,
)
from solkit.adapters.fake_cuda.missing_kernels import call_without_kernel
from solkit.adapters.fake_cuda.shortcuts import try_at_once
from solkit.adapters.fake_cuda.suppositions import suppose_contents
from solkit.adapters.fake_cuda.value_propagation import compute_known, propagate_values
from solkit.errors import UnsupportedError

_aten = torch.ops.aten


class KnownValues(TorchDispatchMode):
    """Tracks the values of small tensors, and guesses unknown ones."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, torch._ops.HigherOrderOperator):
            return func(*args, **kwargs)
        if func in _MEETING_REAL and type(args[0]) in (torch.Tensor, torch.nn.Parameter):
            args = (_lift_real_tensor(args[0]), *args[1:])
        answer = ANSWERS.get(func)
        if answer is not None:
            return answer(*args, **kwargs)
        if (parts := taken_apart(self, func, args, kwargs)) is not NotImplemented:
            return parts
        if func is _aten.index.Tensor:
            out = func(args[0], integer_indices(args[1]))
        else:
            out = _call_on_fakes(func, args, kwargs)
        if isinstance(func, torch._ops.OpOverload):
            propagate_values(func, args, kwargs, out)
            suppose_contents(func, args, kwargs, out)
        return out


_MEETING_REAL = (_aten.lift_fresh.default, _aten._to_copy.default)
"""Ops that take real tensors: ``torch.tensor([...])``, ``torch.from_numpy(x).cuda()``."""

_CHOOSING = (_aten.where.self, _aten.where.self_out)


def _lift_real_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """Return a fake of a real tensor; torch's own way imports its compiler, which takes 1 s."""
    lifted = torch.empty_strided(
        tuple(tensor.shape), tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )
    fact = recall_contents(tensor)
    if fact is not None:
        with computing_really():
            value = fact.value.detach().clone()
        remember_contents(cast(FakeTensor, lifted), KnownContents(value))
    return lifted


def _call_on_fakes(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return an op on fake tensors, or on known values if its shape depends on data."""
    out = try_at_once(func, args, kwargs)
    if out is not None:
        return out
    if func in _CHOOSING and args[0].dtype is torch.uint8:
        args = (args[0].bool(), *args[1:])  # kernels take bytes, torch's shapes of fakes do not
    try:
        return func(*args, **kwargs)
    except (DynamicOutputShapeException, DataDependentOutputException) as error:
        values = compute_known(func, args, kwargs)
        if values is None and func in SHAPE_GUESSES:
            return SHAPE_GUESSES[func](*args, **kwargs)
        if values is None:
            raise UnsupportedError(f"the result of {func} depends on unknown data") from error
        like = next(leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor))
        results = [make_holding(like, value) for value in values]
        return results[0] if len(func._schema.returns) == 1 else tuple(results)
    except UnsupportedOperatorException as error:
        raise UnsupportedError(
            f"{func} has no kernel for fake tensors: register one with "
            f'torch.library.register_fake("{func._schema.name}")'
        ) from error
    except RuntimeError as error:
        if not any(words in str(error) for words in _SOUGHT_GPU):
            raise
        return call_without_kernel(func, args, kwargs)


_SOUGHT_GPU = ("Could not run", "Found no NVIDIA driver", "No CUDA GPUs are available")
"""Errors of ops without a fake kernel, which torch runs on zeros on the GPU: the first one with a
CPU build, the others without a GPU and where it is hidden."""
