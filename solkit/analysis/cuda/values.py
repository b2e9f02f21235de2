"""Values of host code: C++ values in Python, and operations on them.

A value that cannot be known without a GPU is `UNKNOWN`, and so is everything computed from it.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import torch

from solkit.analysis.cuda.source import Token


class _Unknown:
    """A value that cannot be known without a GPU."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = _Unknown()


def is_unknown(value: Any) -> bool:
    """Tell whether a value, or one inside it, is unknown."""
    several = isinstance(value, list | tuple)
    return any(map(is_unknown, value)) if several else isinstance(value, _Unknown)


@dataclass(frozen=True)
class Address(_Unknown):
    """``&n`` of a number, as arrays of a launch's arguments hold it.

    Attributes:
        scope: variables by name, which statements change.
        name: of the number.
    """

    scope: Mapping[str, Any] = field(repr=False)
    name: str

    @property
    def value(self) -> Any:
        """The number there now."""
        return self.scope.get(self.name, UNKNOWN)


@dataclass(frozen=True)
class Pointer:
    """``x.data_ptr<float>()``; addresses of fake tensors have the allocator's alignment.

    Attributes:
        type: of what it points to.
        address: a number, or `UNKNOWN`.
        tensor: whose data that is; ``None`` if unknown.
        ahead_bytes: its distance from the tensor's first element.
    """

    type: str
    address: Any = UNKNOWN
    tensor: torch.Tensor | None = field(default=None, compare=False)
    ahead_bytes: int = field(default=0, compare=False)


@dataclass
class Dim3:
    """``dim3``, whose fields host code assigns."""

    x: int
    y: int = 1
    z: int = 1


@dataclass
class Record:
    """A structure.

    Attributes:
        values: its fields, as far as they are known.
    """

    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Kernel:
    """A kernel by its name, as a launch or a function pointer names it.

    Attributes:
        name: without its namespace.
        template: the arguments that are spelled out.
    """

    name: str
    template: tuple[str, ...] = ()


@dataclass(frozen=True)
class Type:
    """A C++ type that a template parameter stands for."""

    name: str


@dataclass(frozen=True)
class Position:
    """``sizes.begin() + 1``: a place in a sequence."""

    values: Sequence[Any]
    index: int


@dataclass(frozen=True)
class Lambda:
    """``[&](int n) { ... }``, which sees its caller's scope."""

    body: tuple[Token, ...]
    parameters: tuple[tuple[Token, ...], ...]


DTYPES = {
    **dict.fromkeys(("kFloat32", "kFloat", "Float"), torch.float32),
    **dict.fromkeys(("kFloat64", "kDouble", "Double"), torch.float64),
    **dict.fromkeys(("kFloat16", "kHalf", "Half"), torch.float16),
    **dict.fromkeys(("kBFloat16", "BFloat16"), torch.bfloat16),
    **dict.fromkeys(("kInt32", "kInt", "Int"), torch.int32),
    **dict.fromkeys(("kInt64", "kLong", "Long"), torch.int64),
    **dict.fromkeys(("kInt16", "kShort", "Short"), torch.int16),
    **dict.fromkeys(("kInt8", "kChar", "Char"), torch.int8),
    **dict.fromkeys(("kUInt8", "kByte", "Byte"), torch.uint8),
    **dict.fromkeys(("kBool", "Bool"), torch.bool),
}
CPP_TYPES = {
    torch.float32: "float", torch.float64: "double", torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16", torch.int32: "int", torch.int64: "long long",
    torch.int16: "short", torch.int8: "signed char", torch.uint8: "unsigned char",
    torch.bool: "bool",
}  # fmt: skip
SIZES = {
    "char": 1, "int8_t": 1, "uint8_t": 1, "bool": 1, "short": 2, "half": 2, "__half": 2,
    "Half": 2, "BFloat16": 2, "__nv_bfloat16": 2, "int16_t": 2, "uint16_t": 2, "int": 4,
    "unsigned": 4, "float": 4, "int32_t": 4, "uint32_t": 4, "half2": 4, "__half2": 4,
    "__nv_bfloat162": 4, "long": 8, "double": 8, "int64_t": 8, "uint64_t": 8, "size_t": 8,
    "float2": 8, "int2": 8, "float4": 16, "int4": 16, "double2": 16,
}  # fmt: skip
"""Bytes; CUDA C++ Programming Guide, built-in vector types."""

INTEGERS = frozenset(
    "int unsigned long short char int8_t uint8_t int16_t uint16_t int32_t uint32_t int64_t "
    "uint64_t size_t ssize_t uint ptrdiff_t uintptr_t intptr_t".split()
)
FLOATS = frozenset({"float", "double"})
MATH: Mapping[str, Callable[..., Any]] = {
    "min": min, "max": max, "ceil": math.ceil, "ceilf": math.ceil, "floor": math.floor,
    "floorf": math.floor, "sqrt": math.sqrt, "sqrtf": math.sqrt, "abs": abs, "pow": math.pow,
    "powf": math.pow, "log2": math.log2, "log2f": math.log2, "exp": math.exp, "log": math.log,
    "round": round, "make_tuple": lambda *a: a, "make_pair": lambda *a: a, "tuple": lambda *a: a,
    "move": lambda a: a, "dim3": lambda *a: Dim3(*a), "make_optional": lambda a: a,
}  # fmt: skip
VECTORS = frozenset({"vector", "array", "IntArrayRef", "ArrayRef"})
SUCCESS = 0  # cudaError_t
CONSTANTS = {
    "true": True, "false": False, "nullptr": 0, "NULL": 0, "nullopt": None, "kCUDA": "cuda",
    "INFINITY": math.inf, "M_PI": math.pi, "FLT_MAX": 3.4028234663852886e38,
    "INT_MAX": 2**31 - 1, "None": None, "cudaSuccess": SUCCESS,
}  # fmt: skip
TENSOR_METHODS: Mapping[str, Callable[..., Any]] = {
    "size": lambda t, i: t.shape[i],
    "sizes": lambda t: list(t.shape),
    "strides": lambda t: list(t.stride()),
    "scalar_type": lambda t: t.dtype,
    "dtype": lambda t: t.dtype,
    "options": lambda t: {"dtype": t.dtype, "device": t.device},
    "device": lambda t: t.device,
    "get_device": lambda t: 0,  # noqa: ARG005 - there is one
    "is_cuda": lambda t: True,  # noqa: ARG005 - where the kernel would run
    "type": lambda t: t.dtype,
    "defined": lambda t: True,  # noqa: ARG005
    "has_value": lambda t: True,  # noqa: ARG005 - of an optional that holds it
    "value": lambda t: t,
    "index": lambda t, i: t[tuple(i)] if isinstance(i, list) and not is_unknown(i) else UNKNOWN,
}


def literal_number(text: str) -> int | float:
    """Return a literal."""
    bare = text.replace("'", "")
    if bare.lower().startswith("0x"):
        return int(bare.rstrip("uUlL"), 16)
    if re.search(r"[.eE]", bare) or bare[-1] in "fF":
        return float(bare.rstrip("fFlL"))
    return int(bare.rstrip("uUlLzZ"))


def converted(value: Any, names: set[str]) -> Any:
    """Return a value in a variable of the type with these names."""
    if "*" in names:
        return value  # nullptr is no float
    if isinstance(value, Pointer) and names & INTEGERS:
        return value.address
    if isinstance(value, bool | int | float):
        if names & FLOATS:
            return float(value)
        if names & INTEGERS and math.isfinite(value):
            return int(value)
    if "dim3" in names and isinstance(value, int | list):
        return dim3_of_arguments(value if isinstance(value, list) else [value])
    return value


def narrows_to_integer(before: Any, value: Any) -> bool:
    """Tell whether a float is assigned to a variable that held an integer."""
    held = isinstance(before, int) and not isinstance(before, bool)
    return held and isinstance(value, float) and math.isfinite(value)


def are_same_plain_values(first: Any, second: Any) -> bool:
    """Tell whether two plain values are equal."""
    plain = bool | int | float | str
    return isinstance(first, plain) and isinstance(second, plain) and first == second


def unary_of(operator: str, value: Any) -> Any:
    """Compute ``!a``, ``-a``, ``+a`` or ``~a``."""
    if operator == "!":
        return UNKNOWN if value is UNKNOWN else not (value is not None and value)
    if not isinstance(value, int | float):
        return UNKNOWN
    return -value if operator == "-" else value if operator == "+" else ~int(value)


_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "<": lambda a, b: a < b, ">": lambda a, b: a > b, "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b, "&": lambda a, b: a & b,
    "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "%": lambda a, b: int(math.fmod(a, b)),
    "/": lambda a, b: (
        int(a / b) if abs(a) < 2**52 else a // b) if isinstance(a, int) and isinstance(b, int)
        else a / b,
}  # fmt: skip


def binary_of(operator: str, lhs: Any, rhs: Any) -> Any:
    """Compute ``a + b`` and its like; ``/`` and ``%`` of integers as C++ rounds them."""
    if operator in ("&&", "||"):
        sides = [side if side is UNKNOWN else bool(side) for side in (lhs, rhs)]
        decided = operator == "||"
        if any(side is decided for side in sides):
            return decided
        return UNKNOWN if UNKNOWN in sides else not decided
    if lhs is UNKNOWN or rhs is UNKNOWN:
        return UNKNOWN
    if isinstance(lhs, Position) and isinstance(rhs, int) and operator in "+-":
        return Position(lhs.values, lhs.index + (rhs if operator == "+" else -rhs))
    if isinstance(lhs, Pointer) and isinstance(rhs, int) and operator in "+-":
        size = SIZES.get(lhs.type.rpartition("::")[2])
        if size is None:
            return Pointer(lhs.type)
        by = size * (rhs if operator == "+" else -rhs)
        return replace(
            lhs, address=binary_of("+", lhs.address, by), ahead_bytes=lhs.ahead_bytes + by
        )
    if isinstance(lhs, Pointer) or isinstance(rhs, Pointer):
        if operator not in ("==", "!="):
            return UNKNOWN
        lhs, rhs = (side.address if isinstance(side, Pointer) else side for side in (lhs, rhs))
    return unknown_if_unfit(_OPERATIONS[operator], [lhs, rhs])


def is_null_pointer(value: Any) -> bool:
    """Tell whether a value is ``nullptr``, ``NULL`` or ``0``."""
    return isinstance(value, int) and not isinstance(value, bool) and value == 0


def unknown_if_unfit(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Return the function's result; unknown if the arguments do not fit."""
    if any(arg is UNKNOWN for arg in args):
        return UNKNOWN
    try:
        return function(*args)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        return UNKNOWN


def copied_for_assignment(value: Any) -> Any:
    """Return a value as an assignment passes it on: structures are copied."""
    return (
        copy.copy(value)
        if isinstance(value, Dim3)
        else (Record(dict(value.values)) if isinstance(value, Record) else value)
    )


def dim3_of_arguments(args: Sequence[Any]) -> Any:
    """``dim3(x, y, z)``."""
    values = [extent_of(arg) for arg in args]
    if any(value is None or value[1:] != (1, 1) for value in values) or len(values) > 3:
        only = args[0] if len(args) == 1 else UNKNOWN
        return only if isinstance(only, Dim3) else UNKNOWN
    return Dim3(*(value[0] for value in values if value is not None))


def extent_of(value: Any) -> tuple[int, int, int] | None:
    """Return a grid or block in three dimensions."""
    if isinstance(value, Dim3):
        is_known = all(isinstance(size, int) for size in (value.x, value.y, value.z))
        return (value.x, value.y, value.z) if is_known else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value), 1, 1
    return None


def vector_of(args: Sequence[Any]) -> Any:
    """``std::vector<int64_t>(...)`` and its views: of a list, two positions, or n equal values."""
    first: Any = args[0] if args else []
    if len(args) == 1 and isinstance(first, list):
        return list(first)
    if len(args) == 2 and all(isinstance(arg, Position) for arg in args):
        return list(first.values[first.index : args[1].index])
    if len(args) == 2 and isinstance(first, int):
        return [args[1]] * first
    return [0] * first if len(args) == 1 and isinstance(first, int) else list(args)


def element_of(value: Any, index: Any) -> Any:
    """``value[index]``."""
    if isinstance(value, list | tuple | torch.Tensor) and isinstance(index, int):
        try:
            return value[index]
        except IndexError:
            return UNKNOWN
    return UNKNOWN


def option_of(options: dict[str, Any], name: str, args: Sequence[Any]) -> Any:
    """``options.dtype(torch::kFloat32)``; unknown values change nothing."""
    if not args:
        return options.get(name, UNKNOWN)
    is_known = name in ("dtype", "device") and args[0] is not UNKNOWN
    return {**options, name: args[0]} if is_known else options


def sequence_method(value: Any, name: str, args: Sequence[Any]) -> Any:
    """Return a method of a ``std::vector`` or an ``IntArrayRef``."""
    if name in ("size", "numel"):
        return len(value)
    if name in ("push_back", "emplace_back") and isinstance(value, list):
        value.append(args[0])
        return None
    if name in ("vec", "data"):
        return list(value)
    if name in ("begin", "end"):
        return Position(value, len(value) if name == "end" else 0)
    if name in ("erase", "insert") and isinstance(value, list) and isinstance(args[0], Position):
        at = args[0].index
        value[at : at + (name == "erase")] = args[1:]
        return None
    ends = {"back": -1, "front": 0}
    if name in ends or (name in ("at", "operator") and args):
        return element_of(value, ends.get(name, args[0] if args else UNKNOWN))
    return UNKNOWN


def device_properties() -> Any:
    """``cudaDeviceProp``, as far as launchers look."""
    properties = torch.cuda.get_device_properties(0)
    return SimpleNamespace(
        multiProcessorCount=properties.multi_processor_count,
        major=properties.major, minor=properties.minor,
        maxThreadsPerBlock=1024, warpSize=32, totalGlobalMem=properties.total_memory,
    )  # fmt: skip
