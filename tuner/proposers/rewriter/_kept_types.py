"""Types of tensors between launches: a value that stays in registers is rounded as in memory.

A narrower float only rounds a value, so it is kept as it is. Whole numbers, truths and floats of
8 bits change it. A tensor that is made like another has its type, which only the launch knows.
"""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from solkit.tuner.proposers.rewriter._launcher_tensors import DEFAULT_TYPE, launcher_tensor
from solkit.tuner.proposers.rewriter._nodes import (
    calls_within,
    parse_expression,
    render_code,
    single_assignment,
)
from solkit.tuner.proposers.rewriter._roots import ALLOCATORS

_ROUNDED = ("tl.float16", "tl.bfloat16", "tl.float32", "tl.float64")
_OTHER_NAMES = {
    **{"half": "float16", "float": "float32", "double": "float64", "bool": "int1"},
    **{"short": "int16", "int": "int32", "long": "int64"},
    **{"float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5"},
}
"""Types of torch that Triton has by another name."""
_SAME_NAMES = frozenset(
    "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
)


class UnknownTypeError(Exception):
    """No argument of a launch tells the type of a tensor."""


def kept_type(
    allocation: cst.BaseStatement, launcher: cst.FunctionDef, arguments: Mapping[str, str]
) -> str:
    """Return the type of an allocated tensor, as device code, if that may change values.

    Args:
        allocation: the launcher's statement.
        launcher: the function that it is in.
        arguments: the launch's, as code, by parameter: one of them may have the type.

    Returns:
        The type; empty for floats of 16 bits and more.

    Raises:
        UnknownTypeError: it is that of a tensor that no argument is.
    """
    kind = memory_type(allocation, launcher, arguments)
    return "" if kind in _ROUNDED else kind


def memory_type(
    allocation: cst.BaseStatement, launcher: cst.FunctionDef, arguments: Mapping[str, str]
) -> str:
    """Return the type of an allocated tensor, as device code; for the rest see `kept_type`.

    Returns:
        The type; empty if nothing is allocated.
    """
    binding = single_assignment(allocation)
    if binding is None or not calls_within(allocation, *ALLOCATORS):
        return ""
    tensor = launcher_tensor(binding.value, launcher)
    if tensor.origin is None:
        plain = "float32" if tensor.dtype == DEFAULT_TYPE else tensor.dtype.removeprefix("torch.")
        if plain not in {*_OTHER_NAMES, *_SAME_NAMES}:
            raise UnknownTypeError(plain)
        return f"tl.{_OTHER_NAMES.get(plain, plain)}"
    code = render_code(tensor.origin)
    for name, argument in arguments.items():
        other = launcher_tensor(parse_expression(argument), launcher).origin
        if other is not None and render_code(other) == code:
            return f"{name}.dtype.element_ty"
    raise UnknownTypeError(code)
