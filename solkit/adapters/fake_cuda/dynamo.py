"""torch's compiler, imported only where it is used, and never run."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any

import torch

from solkit.adapters.fake_cuda.guesses import guess

__all__ = ["compile_nothing", "defer_dynamo"]


class _DeferredDynamo(types.ModuleType):
    """Stands for `torch._dynamo` until something other than ``disable`` is asked of it."""

    @staticmethod
    def disable(fn: Any = None, *_: Any, **__: Any) -> Any:
        """Nothing is compiled, so nothing needs to be kept from it."""
        return fn if fn is not None else lambda function: function

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _import_dynamo()
        return getattr(sys.modules["torch._dynamo"], name)


class _PackageFirst(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports `torch._dynamo` before any module in it, which would else import it midway."""

    def find_spec(self, fullname: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        """A spec of the module where importing the package has imported it too."""
        if not fullname.startswith("torch._dynamo.") or fullname == "torch._dynamo.config":
            return None  # the settings, which every fake tensor mode reads, stand alone
        _import_dynamo()
        return importlib.util.spec_from_loader(fullname, self) if fullname in sys.modules else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """The module that is there."""
        module = sys.modules[spec.name]
        self.spec = module.__spec__
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Give back the spec that the import system has just replaced."""
        module.__spec__ = self.spec


_package_first = _PackageFirst()


def defer_dynamo() -> None:
    """Keep torch from importing its compiler, a second's work, for the first op on fake tensors.

    Many of torch's functions are marked "not to be compiled" when first called, which imports
    `torch._dynamo` (torch/compile_nothing.py). It is imported after all where more of it is used.
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
    """Put the real `torch._dynamo` where its stand-in is, if it still is."""
    if _package_first in sys.meta_path:
        sys.meta_path.remove(_package_first)
        del sys.modules["torch._dynamo"], torch._dynamo
        torch._dynamo = importlib.import_module("torch._dynamo")


def compile_nothing(model: Any = None, **options: Any) -> Any:
    """`torch.compile`: the function itself, since Inductor needs the GPU."""
    if model is None:
        return lambda function: compile_nothing(function, **options)
    guess("torch.compile was ignored: what it would fuse or generate is not seen")
    return model
