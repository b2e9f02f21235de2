"""CUDA extensions: none is built."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from solkit.errors import UnsupportedError

__all__ = ["UnbuiltExtensions"]


class _Extension:
    """What `torch.utils.cpp_extension.load` returns: nothing is built; functions fail if called."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def function(*_: Any, **__: Any) -> Any:
            raise UnsupportedError(f"{name} of a compiled CUDA extension: not analysed")

        return function


class UnbuiltExtensions(importlib.abc.MetaPathFinder):
    """Replaces what builds extensions when `torch.utils.cpp_extension` is imported, if ever."""

    def find_spec(self, fullname: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, with a loader that replaces `load` and `load_inline` after."""
        if fullname != "torch.utils.cpp_extension":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            module.load = module.load_inline = _Extension

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
