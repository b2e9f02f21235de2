"""State that a reference may leave for its later calls, as far as Python shows it.

Modules that cache a table, pack weights at the first call or count their calls have such state. A
call that leaves none is like all later ones, so that one is enough to know what they do. Tensors
that outlive a call and writes to older ones are seen by `solkit.roofline.work.program`.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from solkit.adapters.fake_cuda import InputContents

_SIMPLE = (int, float, complex, str, bytes, bool, type(None))
_CONTAINERS = (dict, list, set, tuple)


class CallState:
    """State before a call: whether it changed since, and its inputs as they were.

    Args:
        function: the reference.
        inputs: the tensors that it is called with.
    """

    def __init__(self, function: Callable[..., Any], inputs: list[torch.Tensor]) -> None:
        self._function = function
        self._before = _snapshot(function)
        self._inputs = InputContents(inputs)

    def has_changed(self) -> bool:
        """Tell whether a variable that later calls may read holds something else now."""
        return _snapshot(self._function) != self._before

    def restore_inputs(self) -> None:
        """Give the inputs the contents that they had."""
        self._inputs.restore()


def held_tensors(function: Callable[..., Any]) -> list[torch.Tensor]:
    """Return parameters, buffers and other tensors that a reference holds; no lone numbers of its.

    A number that is no parameter may be a constant of the program, such as what a mask fills in.
    """
    held: dict[int, torch.Tensor] = {}
    for variables in _variables(function, set()):
        for value in variables.values():
            things = value if type(value) in (list, tuple) else [value]
            for tensor in filter(torch.is_tensor, things):
                if tensor.numel() > 1 or isinstance(tensor, torch.nn.Parameter):
                    held[id(tensor)] = tensor
    return list(held.values())


def _snapshot(function: Callable[..., Any]) -> list[tuple[int, Any, Any]]:
    """Return what each variable holds: numbers and text by value, other things by identity."""
    return [
        (number, name, _identity(value))
        for number, variables in enumerate(_variables(function, set()))
        for name, value in list(variables.items())
    ]


def _identity(value: Any) -> Any:
    if isinstance(value, _SIMPLE):
        return value
    return id(value), len(value) if type(value) in _CONTAINERS else 0


def _variables(thing: Any, seen: set[int]) -> Iterator[Mapping[str, Any]]:
    """Yield the variables that a function reads: of its module, its closure and its objects."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, functools.partial):
        yield from _variables(thing.func, seen)
    elif isinstance(thing, types.MethodType):
        yield from _variables(thing.__func__, seen)
        yield from _variables(thing.__self__, seen)
    elif isinstance(thing, torch.nn.Module):
        for module in thing.modules():
            yield vars(module)
            yield from (module._parameters, module._buffers)
            yield from _variables(type(module).forward, seen)
    elif isinstance(thing, types.FunctionType):
        yield thing.__globals__
        yield vars(thing)
        cells = [cell.cell_contents for cell in thing.__closure__ or () if _is_filled(cell)]
        yield dict(zip(thing.__code__.co_freevars, cells))
        for held in (*cells, *vars(thing).values()):
            yield from _variables(held, seen)
    elif type(thing).__module__ not in ("builtins", "torch") and hasattr(thing, "__dict__"):
        yield vars(thing)
        for held in list(vars(thing).values()):
            if isinstance(held, (types.FunctionType, types.MethodType, torch.nn.Module)):
                yield from _variables(held, seen)


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 (an empty cell raises)
    except ValueError:
        return False
    return True
