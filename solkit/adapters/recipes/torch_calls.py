"""Calls of torch while a run is recorded: what depends on parameters becomes a step.

A tensor whose size depends on a parameter is followed through whatever is made of it, so that its
shape and strides are stand-ins. Functions that make tensors take stand-ins; others that torch
parses in C++ pin what they are given, or raise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from solkit.adapters.recipes.steps import Steps

__all__ = ["following_torch"]

_MAKERS = "empty zeros ones full empty_strided arange full_like"
_METHODS = "new_empty new_zeros new_ones new_full new_empty_strided view reshape expand"
_GIVE_PYTHON = frozenset(
    "__bool__ __int__ __float__ __complex__ __index__ __len__ __repr__ __format__".split()
)
"""Methods of tensors from which Python takes its own types alone."""

_WRITES = frozenset(
    "__setitem__ __set__ __delete__ __iadd__ __isub__ __imul__ __imatmul__ __itruediv__ "
    "__ifloordiv__ __imod__ __ipow__ __ilshift__ __irshift__ __iand__ __ior__ __ixor__".split()
)
"""Methods of Python's names that change their tensor; torch's own end in ``_``."""


@contextlib.contextmanager
def following_torch(steps: Steps) -> Iterator[None]:
    """Record the calls of torch made within that depend on parameters."""
    with contextlib.ExitStack() as stack:
        for owner, names in ((torch, _MAKERS), (torch.Tensor, _METHODS)):
            for name in names.split():
                stack.enter_context(_replaced(owner, name, steps))
        stack.enter_context(_Following(steps))
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: str, steps: Steps) -> Iterator[None]:
    original, own = getattr(owner, name), name in vars(owner)

    def call(*args: Any, **kwargs: Any) -> Any:
        if steps.holds((args, kwargs)):
            return steps.apply(original, args, kwargs)
        return original(*args, **kwargs)

    setattr(owner, name, call)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, original)
        else:  # a class had it from its base
            delattr(owner, name)


class _Following(TorchFunctionMode):
    """Told of each call with a tensor in it."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if not self.steps.holds((args, kwargs)):
            return func(*args, **kwargs)
        if _writes(func, kwargs):
            args, kwargs = self.steps.pin((args, dict(kwargs)))
            return func(*args, **kwargs)
        result = self.steps.apply(func, args, kwargs)
        return self.steps.pin(result) if getattr(func, "__name__", "") in _GIVE_PYTHON else result


def _writes(func: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a function changes what it is given: by torch's convention its name says so."""
    name = getattr(func, "__name__", "")
    if name.startswith("__"):
        return name in _WRITES
    return name.endswith("_") or kwargs.get("out") is not None
