"""A stand-in for torch's compiler, which is imported only if needed.

`torch.compile` gives functions that run as they are, unless `compiling` names a compiler for them.
"""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import contextlib
import copy
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from solkit.core.stack import Stack


class _DeferredDynamo(types.ModuleType):
    """Replaces `torch._dynamo` until an attribute other than ``disable`` is used."""

    @staticmethod
    def disable(fn: Any = None, *_: Any, **__: Any) -> Any:
        """Return the function: nothing is compiled."""
        return fn if fn is not None else lambda function: function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _import_dynamo()
        return getattr(sys.modules["torch._dynamo"], name)


class _PackageFirst(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports `torch._dynamo` before its submodules, which would import it midway."""

    def find_spec(self, fullname: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        """Return a spec of the module, if importing the package imported it too."""
        if not fullname.startswith("torch._dynamo.") or fullname == "torch._dynamo.config":
            return None  # every fake tensor mode reads the settings, which need no package
        _import_dynamo()
        return importlib.util.spec_from_loader(fullname, self) if fullname in sys.modules else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return the imported module."""
        module = sys.modules[spec.name]
        self.spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Restore the spec that the import system has replaced."""
        module.__spec__ = self.spec


_package_first = _PackageFirst()


def defer_dynamo() -> None:
    """Import torch's compiler, which takes 1 s, only if it is used.

    Else the first op on fake tensors imports it: many functions of torch are marked as not to be
    compiled when first called.
    """
    if "torch._dynamo" in sys.modules:
        return
    spec = importlib.util.find_spec("torch._dynamo")
    assert spec is not None
    deferred = _DeferredDynamo("torch._dynamo")
    deferred.__spec__, deferred.__file__ = spec, spec.origin
    deferred.__path__ = list(spec.submodule_search_locations or ())
    sys.modules["torch._dynamo"] = torch._dynamo = deferred
    sys.meta_path.insert(0, _package_first)


def _import_dynamo() -> None:
    """Replace the stand-in by the real `torch._dynamo`."""
    if _package_first in sys.meta_path:
        sys.meta_path.remove(_package_first)
        del sys.modules["torch._dynamo"], torch._dynamo
        torch._dynamo = importlib.import_module("torch._dynamo")


Compiler = Callable[[Callable[..., Any], Mapping[str, Any], tuple[Any, ...], dict[str, Any]], Any]
"""Calls a function as it would be compiled; gets the options of `torch.compile` and the arguments.
"""

_compilers = Stack[Compiler]()


def compiling(compiler: Compiler | None) -> contextlib.AbstractContextManager[Compiler]:
    """Let `compiler` call what `torch.compile` gave; ``None`` calls it as it is."""
    return _compilers.holding(compiler or _call_as_it_is)


def _call_as_it_is(
    function: Callable[..., Any], _: Mapping[str, Any], args: tuple[Any, ...], kwargs: Any
) -> Any:
    return function(*args, **kwargs)


def compile_later(model: Any = None, **options: Any) -> Any:
    """`torch.compile`: a function that is compiled when it is called, by `compiling`'s compiler.

    Of a module, a copy that shares all of its parts; of a class, itself, as torch gives it back:
    only the calls of its objects are compiled.
    """
    if model is None:
        return lambda function: compile_later(function, **options)
    if isinstance(model, type):
        if "__call__" in dir(model):
            setattr(model, "__call__", _called_later(model.__call__, options))  # noqa: B010  # mypy
        return model
    if isinstance(model, torch.nn.Module):
        compiled = copy.copy(model)
        compiled._compiled_call_impl = _called_later(model._call_impl, options)
        compiled.__dict__["_orig_mod"] = model
        return compiled
    return _called_later(model, options)


def _called_later(function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        compiler = _compilers[-1] if _compilers else _call_as_it_is
        return compiler(function, options, args, kwargs)

    return call
