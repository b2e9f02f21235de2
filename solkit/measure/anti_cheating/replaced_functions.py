"""Functions that were replaced since the candidate was imported."""

from __future__ import annotations

import builtins
import ctypes
import importlib
import importlib.util
import operator
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from solkit.measure.anti_cheating import Finding
from solkit.measure.anti_cheating.probes import defining_file, is_library

_TRICK = "patched function"

# What measuring relies on: clocks, waiting, events, recording, comparing, answering.
_INSTRUMENTS = """
    builtins time json os random ctypes weakref
    torch.cuda torch.cuda.streams torch.cuda.graphs torch.testing torch.utils._pytree
    torch.profiler torch.profiler.profiler torch.autograd.profiler
    triton.testing triton.runtime.jit triton.runtime.autotuner triton.runtime.driver
    triton.compiler.compiler
    solkit.measure.checking.tolerance solkit.measure.timing.sampling
    solkit.measure.timing.median_interval solkit.measure.timing.timers
""".split()
_COMPARISONS = """
    allclose equal isclose isfinite isnan all any abs sub eq ne le max amax empty empty_like
    zeros
""".split()
# What a reference computes with: an honest candidate may replace these for itself.
_COMPUTING = "torch torch._C._nn torch.nn torch.nn.functional triton triton.language".split()
_HARNESS = "solkit"
_BUILTINS = frozenset(name for name in vars(builtins) if not name.startswith("_"))
# This module's own references, which survive a candidate's replacement of builtins.
_all, _map, _is, _equal = all, map, operator.is_, operator.eq
# Addresses of a function's code and defaults. Reading `__code__` instead is an audit event, and an
# audit hook in Python (`solkit.measure.anti_cheating.probes`) takes microseconds for each.
_code, _defaults = ctypes.pythonapi.PyFunction_GetCode, ctypes.pythonapi.PyFunction_GetDefaults
for _getter in (_code, _defaults):
    _getter.argtypes, _getter.restype = (ctypes.py_object,), ctypes.c_void_p
_OPERATORS = "__sub__ __rsub__ __eq__ __ne__ __le__ __lt__ __abs__ __bool__ __call__".split()


class _OriginalValue(NamedTuple):
    """A named value, with its code and defaults if it is a Python function."""

    value: Any
    function: FunctionType | None
    code: Any
    defaults: Any

    @classmethod
    def from_value(cls, value: Any) -> _OriginalValue:
        function = _python_function(value)
        if function is None:
            return cls(value, None, None, None)
        return cls(value, function, function.__code__, function.__defaults__)


@dataclass(frozen=True)
class _Place:
    """A module or class whose functions were recorded."""

    name: str  # dotted
    owner: Any  # the module or class
    now: Mapping[str, Any]  # its current names
    names: Mapping[str, _OriginalValue]  # the original functions
    # names that a new one would hide: a class's inherited ones, the harness's builtins
    taken: frozenset[str]
    is_instrument: bool  # whether measuring relies on all of them
    # of `names`: all values; for Python functions also the functions, and the addresses of their
    # code and defaults
    columns: tuple[tuple[Any, ...], ...]

    @classmethod
    def from_owner(cls, name: str, owner: Any, is_instrument: bool) -> _Place:
        now = vars(owner)
        names = {
            key: _OriginalValue.from_value(value)
            for key, value in now.items()
            if _is_callable_code(value)
        }
        functions = tuple(k.function for k in names.values() if k.function is not None)
        made_of = (tuple(map(getter, functions)) for getter in (_code, _defaults))
        columns = (tuple(original.value for original in names.values()), functions, *made_of)
        taken = _hideable_names(name, owner) - now.keys()
        return cls(name, owner, now, names, taken, is_instrument, columns)

    def changed_names(self) -> Iterator[str]:
        """Yield names whose functions changed."""
        if not self._is_surely_unchanged():
            get = self.now.get
            for name, (value, function, code, defaults) in self.names.items():
                if get(name) is not value or (
                    function is not None
                    and (function.__code__ is not code or function.__defaults__ is not defaults)
                ):
                    yield name

    def _is_surely_unchanged(self) -> bool:
        """Tell the same without a Python loop: there are thousands of names."""
        values, functions, codes, defaults = self.columns
        return (
            _all(_map(_is, _map(self.now.get, self.names), values))
            and _all(_map(_equal, _map(_code, functions), codes))
            and _all(_map(_equal, _map(_defaults, functions), defaults))
        )

    def hidden_names(self) -> Iterator[str]:
        """Yield names that now hide inherited ones."""
        if not self.taken.isdisjoint(self.now):
            yield from (
                name for name in self.taken & self.now.keys() if _is_callable_code(self.now[name])
            )

    def is_relied_on(self, name: str) -> bool:
        """Tell whether a measurement relies on this name."""
        is_comparison = self.name in ("torch", "torch.Tensor") and name.strip("_") in _COMPARISONS
        return self.is_instrument or is_comparison


class Identities:
    """The functions of torch, triton, Python and SolKit at construction.

    It does not see patches in C, or changed data (such as a dict that the harness reads). So
    nothing that decides a verdict is computed in the candidate's process.
    """

    def __init__(self) -> None:
        self._modules = {name: _import_if_installed(name) for name in (*_INSTRUMENTS, *_COMPUTING)}
        self._places = list(_record_modules(self._modules))

    def findings(self) -> Iterator[Finding]:
        """Yield what was replaced since construction."""
        for name, module in self._modules.items():
            if module is not None and sys.modules.get(name) is not module:
                yield Finding(_TRICK, f"the module {name} was replaced in sys.modules", True)
        for place in self._places:
            for name in place.changed_names():
                yield from _describe_replacement(
                    place, name, place.names[name], place.now.get(name)
                )
            for name in place.hidden_names():
                text = f"{place.name}.{name} now hides another function with that name"
                yield Finding(_TRICK, text, True)


def _describe_replacement(
    place: _Place, name: str, original: _OriginalValue, new: Any
) -> Iterator[Finding]:
    full = f"{place.name}.{name}"
    if new is None:
        yield Finding(_TRICK, f"{full} was removed", True)
    elif new is original.value:
        yield Finding(_TRICK, f"{full} was given new code", True)
    else:
        file = defining_file(_python_function(new) or new)
        # importing torch's compiler wraps some of its functions
        if place.is_relied_on(name) or file is None or not is_library(file):
            kind = getattr(new, "__qualname__", type(new).__qualname__)
            by = f" of {file}" if file is not None else ""
            yield Finding(_TRICK, f"{full} was replaced by {kind}{by}", True)


def _hideable_names(name: str, owner: Any) -> frozenset[str]:
    if isinstance(owner, type):
        inherited = {key for base in owner.__mro__[1:-1] for key in vars(base)}
        return frozenset(key for key in inherited if not key.startswith("__") or key in _OPERATORS)
    return _BUILTINS if name.partition(".")[0] == _HARNESS else frozenset()


def _record_modules(modules: Mapping[str, ModuleType | None]) -> Iterator[_Place]:
    import torch

    harness = {name: m for name, m in sys.modules.items() if name.partition(".")[0] == _HARNESS}
    instruments = {name: modules[name] for name in _INSTRUMENTS} | harness
    seen: set[int] = set()
    for name, module in instruments.items():
        if module is not None:
            yield _Place.from_owner(name, module, True)
            yield from _record_classes(name, module, seen)
    for name in _COMPUTING:
        if modules[name] is not None:
            yield _Place.from_owner(name, modules[name], False)
    yield _Place.from_owner("torch.Tensor", torch.Tensor, False)
    yield _Place.from_owner("torch.nn.Module", torch.nn.Module, False)


def _record_classes(name: str, module: ModuleType, seen: set[int]) -> Iterator[_Place]:
    """Yield the classes that a module exports, wherever in its package they are defined."""
    package = name.partition(".")[0]
    for key, value in list(vars(module).items()):
        home = getattr(value, "__module__", None) or ""
        is_here = home.partition(".")[0] == package != "builtins"
        # tensors are inspected once; the legacy ``torch.cuda.FloatTensor`` etc. are not at all
        is_tensor = type(value).__name__ in ("_TensorMeta", "_ParameterMeta", "tensortype")
        if isinstance(value, type) and is_here and not is_tensor and id(value) not in seen:
            seen.add(id(value))
            yield _Place.from_owner(f"{name}.{key}", value, True)


def _is_callable_code(value: Any) -> bool:
    return callable(value) or isinstance(value, (staticmethod, classmethod, property))


def _python_function(value: Any) -> FunctionType | None:
    inner = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    return inner if isinstance(inner, FunctionType) else None


def _import_if_installed(name: str) -> ModuleType | None:
    """Return the module, or ``None`` if its package is not installed (triton on some systems)."""
    if importlib.util.find_spec(name.partition(".")[0]) is None:
        return None
    if name in sys.modules or importlib.util.find_spec(name) is not None:
        return importlib.import_module(name)
    parent, _, last = name.rpartition(".")  # of torch's C extension: an attribute, not a file
    attribute = getattr(importlib.import_module(parent), last, None)
    return attribute if isinstance(attribute, ModuleType) else None
