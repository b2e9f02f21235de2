"""Stand-ins for parameters: numbers and strings that record their use.

A stand-in passes ``isinstance`` for its value's class. Arithmetic, comparisons and rounding give
other stand-ins; where Python needs the value itself, it is pinned. ``is``, ``type()``, ``id()`` and
C code that takes only real numbers cannot be followed. Hashing is an error, since a user's cache
would keep the stand-in; `Steps.culprits` names the parameter.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from solkit.adapters.recipes.steps import PLAIN, Steps

__all__ = ["stand_in"]


class _StandIn:
    """The base of all stand-ins.

    Attributes:
        solkit_steps, solkit_index: the call that gave the value.
        solkit_value: the value in the recorded run.
    """

    __slots__ = ("solkit_index", "solkit_steps", "solkit_value")
    solkit_steps: Steps
    solkit_index: int
    solkit_value: Any

    def __init__(self, steps: Steps, index: int, value: Any) -> None:
        self.solkit_steps, self.solkit_index, self.solkit_value = steps, index, value

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.solkit_value)

    def __hash__(self) -> int:
        self.solkit_steps.blame(self)
        raise TypeError("a parameter that is recorded cannot be hashed")

    def __getattr__(self, name: str) -> Any:
        if not hasattr(type(self.solkit_value), name):
            raise AttributeError(f"{type(self.solkit_value).__name__!r} has no {name!r}")
        return getattr(self.solkit_steps.pin(self), name)

    def __bool__(self) -> bool:
        return bool(_pinned_as(bool, self))

    def __str__(self) -> str:
        return str(self.solkit_steps.pin(self))

    def __repr__(self) -> str:
        return repr(self.solkit_steps.pin(self))

    def __format__(self, spec: str) -> str:
        return format(self.solkit_steps.pin(self), spec)

    def __copy__(self) -> _StandIn:
        return self

    def __deepcopy__(self, memo: Any) -> _StandIn:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.solkit_steps.pin(self).__reduce_ex__(protocol)


class _Number(_StandIn):
    """Stands for an int, a float or a bool."""

    __slots__ = ()

    def __int__(self) -> int:
        return int(_pinned_as(int, self))

    def __float__(self) -> float:
        return float(_pinned_as(float, self))

    def __index__(self) -> int:
        return operator.index(self.solkit_steps.pin(self))

    def __round__(self, *digits: Any) -> Any:
        return self.solkit_steps.apply(round, (self, *digits))

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


class _Word(_StandIn):
    """Stands for a string."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(self.solkit_steps.pin(self))

    def __iter__(self) -> Any:
        return iter(self.solkit_steps.pin(self))

    def __contains__(self, part: Any) -> bool:
        return part in self.solkit_steps.pin(self)

    def __getitem__(self, index: Any) -> Any:
        return self.solkit_steps.apply(operator.getitem, (self, index))


def stand_in(steps: Steps, index: int, value: Any) -> Any:
    """Return a stand-in for the result of a call."""
    return (_Word if isinstance(value, str) else _Number)(steps, index, value)


def _pinned_as(kind: type, value: _StandIn) -> Any:
    """Return the value as `kind`; only that is pinned."""
    if type(value.solkit_value) is kind:
        return value.solkit_steps.pin(value)
    return value.solkit_steps.pin(value.solkit_steps.apply(kind, (value,)))


def _computed(function: Callable[..., Any], *operands: Any) -> Any:
    """Return an operation with at least one stand-in."""
    ours = [issubclass(type(operand), _StandIn) for operand in operands]  # `isinstance` believes it
    steps = operands[ours.index(True)].solkit_steps
    if not all(own or _is_followed(operand) for own, operand in zip(ours, operands)):
        return function(*(steps.pin(x) if own else x for own, x in zip(ours, operands)))
    result = steps.apply(function, operands)
    if function is operator.pow:  # integers give an integer or a fraction
        steps.pin(steps.apply(isinstance, (result, int)))
    return result


def _is_followed(operand: Any) -> bool:
    """Tell whether it is a plain value or a tensor, so that the operation is a step."""
    return type(operand) in PLAIN or hasattr(type(operand), "untyped_storage")


def _define() -> None:
    for name in "add sub mul truediv floordiv mod pow lshift rshift and or xor".split():
        function = getattr(operator, name + "_" * (name in ("and", "or")))
        setattr(_StandIn, f"__{name}__", lambda a, b, f=function: _computed(f, a, b))
        setattr(_StandIn, f"__r{name}__", lambda a, b, f=function: _computed(f, b, a))
    for name in "lt le gt ge eq ne".split():
        function = getattr(operator, name)
        setattr(_StandIn, f"__{name}__", lambda a, b, f=function: _computed(f, a, b))
    for module, names in ((operator, "neg pos abs invert"), (math, "ceil floor trunc")):
        for name in names.split():
            function = getattr(module, name)
            setattr(_Number, f"__{name}__", lambda a, f=function: _computed(f, a))


_define()
