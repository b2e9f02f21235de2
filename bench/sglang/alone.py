"""Modules of SGLang, unmodified, without the builds and packages that importing SGLang needs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any


def import_alone(name: str, names: Mapping[str, Mapping[str, Any]]) -> ModuleType:
    """Import one module of an installed package, with stubs for what it imports.

    Args:
        name: the module, e.g. ``sglang.kernels.ops.moe.fused_moe_triton_kernels``.
        names: by module that it imports from, the names that it takes and what they are here.

    Raises:
        ImportError: the package is not installed.
    """
    if name in sys.modules:
        return sys.modules[name]
    package, _, rest = name.partition(".")
    root = find_spec(package)
    if root is None or root.origin is None:
        raise ImportError(f"needs {package} (pip install --no-deps {package})")
    path = Path(root.origin).parent / Path(*rest.split(".")).with_suffix(".py")
    for module, values in names.items():
        vars(_stub(module)).update(values)
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    imported = module_from_spec(spec)
    sys.modules[name] = imported
    spec.loader.exec_module(imported)
    return imported


def _stub(name: str) -> ModuleType:
    """Return the stub of a module; what it is in is one as well."""
    parent = name.rpartition(".")[0]
    if parent:
        _stub(parent)
    if name not in sys.modules:
        stub = ModuleType(name)
        stub.__path__ = []
        stub.__spec__ = ModuleSpec(name, None, is_package=True)
        sys.modules[name] = stub
    return sys.modules[name]
