"""Operators that are made of others, where they arrive whole.

Autograd takes such an operator (``to``, ``matmul``, ``item``) apart before a dispatch mode sees it.
Where autograd does not run (`torch.inference_mode`, the inside of a `torch.library.triton_op`) it
arrives whole, and is taken apart here, so that the same launches are seen.
"""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def taken_apart(
    mode: TorchDispatchMode, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Return the result of an operator that is made of others, which `mode` sees.

    Args:
        mode: that got the operator.
        func: the operator.
        args: its arguments.
        kwargs: its arguments by keyword.

    Returns:
        ``NotImplemented`` for an operator with a kernel of its own.
    """
    if not isinstance(func, torch._ops.OpOverload) or not _is_composite(func):
        return NotImplemented
    with mode:
        if _is_kept_whole(func):
            return func._op_dk(torch._C.DispatchKey.CUDA, *args, **kwargs)
        return func.decompose(*args, **kwargs)


@functools.cache
def _is_composite(func: torch._ops.OpOverload) -> bool:
    """Tell whether the dispatcher takes it apart, and a CUDA build of torch has no kernel for it.

    `_can_decompose` also holds for operators with kernels, as `native_batch_norm`.
    """
    if func.namespace == "prim":  # `prim::device` and the like are not in the dispatcher's table
        return False
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    name = func.name()
    if not has_kernel(name, "CompositeImplicitAutograd"):
        return False
    return _is_kept_whole(func) or not has_kernel(name, "CUDA")


@functools.cache
def _is_kept_whole(func: torch._ops.OpOverload) -> bool:
    """Tell whether this package replaces it: attention, recurrent layers."""
    return f"{func.name().replace('::', '/')}/CUDA" in torch.library._impls
