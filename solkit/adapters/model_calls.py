"""Calls of a program's model: the steps of a training loop or of a server."""

# mypy: disable-error-code="no-untyped-call"
# (torch's hooks are untyped)

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules import module as hooks


class ModelCalls:
    """Watches the first module that is called twice from outside any other module.

    The first call may be of a loss function, since that is a module too.

    Args:
        begin: called before each call of the model from the second on, with the call's number.
    """

    def __init__(self, begin: Callable[[int], None]) -> None:
        self._begin_call = begin
        self._calls: dict[int, int] = {}
        self._depth = 0
        self._model: int | None = None
        self._handles: list[Any] = []

    def install(self) -> None:
        """Watch all modules from now on; a compiled one once, without its inner modules."""
        warnings.filterwarnings("ignore", "Using `torch.compile.* when there are global hooks")
        self._handles = [
            hooks.register_module_forward_pre_hook(self._begin_module),
            hooks.register_module_forward_hook(self._end_module, always_call=True),
        ]

    def remove(self) -> None:
        """Stop watching."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    # dynamo inspects both hooks and leaves them out: they break no graph

    def _begin_module(self, module: torch.nn.Module, *_: Any) -> None:
        if torch.compiler.is_compiling() or not _is_main():
            return
        if self._depth == 0:
            self._watch_outermost(id(module))
        self._depth += 1

    def _end_module(self, *_: Any) -> None:
        if not torch.compiler.is_compiling() and _is_main():
            self._depth -= 1

    def _watch_outermost(self, module: int) -> None:
        number = self._calls[module] = self._calls.get(module, 0) + 1
        if self._model is None and number == 2:
            self._model = module
        if module == self._model:
            self._begin_call(number)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()
