"""torch's calls during a recorded run: those that depend on parameters become steps.

Tensors whose size depends on a parameter are followed, so their shapes and strides are stand-ins.
Functions that make tensors take stand-ins; other functions that torch parses in C++ pin their
arguments, or raise.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from solkit.adapters import fake_cuda
from solkit.adapters.recipes.steps import Steps

__all__ = ["at_line", "following_torch"]

_MAKERS = "empty zeros ones full empty_strided arange full_like"
_METHODS = "new_empty new_zeros new_ones new_full new_empty_strided view reshape expand"
_GIVE_PYTHON = frozenset(
    "__bool__ __int__ __float__ __complex__ __index__ __len__ __repr__ __format__".split()
)
"""Methods of tensors that must return Python's own types."""

_WRITES = frozenset(
    "__setitem__ __set__ __delete__ __iadd__ __isub__ __imul__ __imatmul__ __itruediv__ "
    "__ifloordiv__ __imod__ __ipow__ __ilshift__ __irshift__ __iand__ __ior__ __ixor__".split()
)
"""Python's methods that change their tensor; torch's own end in ``_``."""


@contextlib.contextmanager
def following_torch(steps: Steps) -> Iterator[None]:
    """Record torch's calls that depend on parameters."""
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
        else:  # it is inherited
            delattr(owner, name)


def at_line(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, which keeps the user's current line when it is called again."""
    return functools.partial(_placed, function, fake_cuda.user_line())


def _placed(function: Callable[..., Any], line: str, /, *args: Any, **kwargs: Any) -> Any:
    with fake_cuda.placed(line):
        return function(*args, **kwargs)


class _Following(TorchFunctionMode):
    """Sees each call with a tensor."""

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
    """Tell whether a function changes an argument, by torch's naming convention."""
    name = getattr(func, "__name__", "")
    if name.startswith("__"):
        return name in _WRITES
    return name.endswith("_") or kwargs.get("out") is not None
