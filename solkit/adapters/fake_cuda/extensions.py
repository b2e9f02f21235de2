"""What is replaced in modules of torch that few programs import, if one does."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from solkit.adapters.fake_cuda.attention import flex_attention_of
from solkit.errors import UnsupportedError

__all__ = ["WhenImported"]


class _Extension:
    """What `torch.utils.cpp_extension.load` returns: nothing is built; functions fail if called."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def function(*_: Any, **__: Any) -> Any:
            raise UnsupportedError(f"{name} of a compiled CUDA extension: not analysed")

        return function


def _build_nothing(module: Any) -> None:
    module.load = module.load_inline = _Extension


def _attend_whole(module: Any) -> None:
    module.flex_attention = flex_attention_of(module)


class WhenImported(importlib.abc.MetaPathFinder):
    """Replaces what a module holds when it is imported, if ever."""

    def __init__(self) -> None:
        self.waiting: dict[str, Callable[[Any], None]] = {
            "torch.utils.cpp_extension": _build_nothing,
            "torch.nn.attention.flex_attention": _attend_whole,
        }
        for name in self.waiting.keys() & sys.modules.keys():
            self.waiting.pop(name)(sys.modules[name])

    def find_spec(self, fullname: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, with a loader that replaces things after it has run."""
        change = self.waiting.pop(fullname, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(fullname)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            change(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
