"""Types of tensors between launches: a value that stays in registers is rounded as in memory.

A narrower float only rounds a value, so it is kept as it is. Whole numbers, truths and floats of
8 bits change it. A tensor that is made like another has its type, which only the launch knows.
"""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import has_assignment
from solkit.tuner.proposers.rewriter._parse import (
    argument_of,
    called_name,
    calls_within,
    launcher_definition,
    parse_expression,
    render_code,
    single_assignment,
)
from solkit.tuner.proposers.rewriter._roots import ALLOCATORS, TENSOR_QUERIES

__all__ = [
    "ALLOCATORS",
    "SAME_TYPE",
    "TENSOR_QUERIES",
    "UnknownTypeError",
    "kept_type",
    "memory_type",
]

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
SAME_TYPE = (
    *("contiguous", "view", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute"),
    *("t", "detach", "clone", "expand", "narrow", "select"),
)
_SAME_TYPE_ATTRIBUTES = ("T", "mT", "data", "grad")


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
    origin = _origin(binding.value, launcher)
    if isinstance(origin, str):
        name = _OTHER_NAMES.get(origin, origin)
        if origin not in {*_OTHER_NAMES, *_SAME_NAMES}:
            raise UnknownTypeError(origin)
        return f"tl.{name}"
    code = render_code(origin)
    for name, argument in arguments.items():
        other = _origin(parse_expression(argument), launcher)
        if not isinstance(other, str) and render_code(other) == code:
            return f"{name}.dtype.element_ty"
    raise UnknownTypeError(code)


def _type_of(call: cst.Call, launcher: cst.FunctionDef) -> str | cst.BaseExpression:
    """Return the type that an allocation names, or the tensor whose type it has."""
    dtype = argument_of(call, 99, "dtype")
    if isinstance(dtype, cst.Attribute) and dtype.attr.value == "dtype":
        return _origin(dtype.value, launcher)
    if isinstance(dtype, cst.Name):
        value = launcher_definition(dtype.value, launcher)
        if isinstance(value, cst.Attribute) and value.attr.value == "dtype":
            return _origin(value.value, launcher)
        dtype = value or dtype
    if dtype is not None:
        return render_code(dtype).removeprefix("torch.")
    if called_name(call).endswith("_like") and call.args:
        return _origin(call.args[0].value, launcher)
    return "float32"


def _origin(node: cst.BaseExpression, launcher: cst.FunctionDef) -> str | cst.BaseExpression:
    """Return the tensor that an expression is a view of, or the type that it was allocated with."""
    names: set[str] = set()
    while True:
        if isinstance(node, cst.Subscript) or (
            isinstance(node, cst.Attribute) and node.attr.value in _SAME_TYPE_ATTRIBUTES
        ):
            node = node.value
        elif isinstance(node, cst.Call) and called_name(node) in ALLOCATORS:
            return _type_of(node, launcher)
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            names_type = any("torch" in render_code(arg) for arg in node.args)
            is_view = node.func.attr.value in SAME_TYPE and not names_type
            if not is_view:
                return node
            node = node.func.value
        elif isinstance(node, cst.Name) and node.value not in names:
            names.add(node.value)
            value = launcher_definition(node.value, launcher)
            if value is None or has_assignment(launcher, node.value) is None:
                return node
            node = value
        else:
            return node
