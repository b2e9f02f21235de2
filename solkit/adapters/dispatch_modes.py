"""Dispatch modes that leave torch's compiler unloaded, and what a schema says of an operator.

`torch.utils._python_dispatch` hides each mode's ``__torch_dispatch__`` from the compiler, and the
first call of what it hides imports the compiler, which takes 3 to 5 s.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class DispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A `TorchDispatchMode` that hides from the compiler once that is loaded, and does not load it.

    Subclasses define ``__torch_dispatch__``.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Hide the subclass's own ``__torch_dispatch__``."""
        super().__init_subclass__(**options)  # type: ignore[no-untyped-call]
        if own := cls.__dict__.get("__torch_dispatch__"):
            cls.__torch_dispatch__ = _hidden_once_loaded(own)  # type: ignore[method-assign]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Tell torch that nothing is left to hide."""
        return False


def _hidden_once_loaded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that the compiler, if it is loaded, does not look into."""
    hidden = torch._disable_dynamo(function)  # type: ignore[attr-defined]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        chosen = hidden if "torch._dynamo" in sys.modules else function
        return chosen(*args, **kwargs)

    return call


@functools.cache
def is_view(func: Any) -> bool:
    """Tell whether an operator's results alias its first argument, as its schema says."""
    infos = [returned.alias_info for returned in func._schema.returns]
    return any(info is not None and not info.is_write for info in infos)
