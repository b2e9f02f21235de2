"""Rules by `Operator.cost`, and the helpers that they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from solkit.roofline.work.program import TensorUse, TracedOp


@dataclass(frozen=True)
class Cost:
    """Operations of one op, under the keys of `solkit.core.OpWork.operations`."""

    operations: Mapping[str, int]

    def __add__(self, other: Cost) -> Cost:
        return Cost(dict(Counter(self.operations) + Counter(other.operations)))

    def with_fewer(self, key: str, count: int) -> Cost:
        """Return the cost with so many operations of a kind fewer, or with none of them."""
        return Cost(dict(Counter(self.operations) - Counter({key: count})))


Rule = Callable[[TracedOp], Cost]
_RULES: dict[str, Rule] = {}

FREE = Cost({})


def has_cost(op: TracedOp) -> bool:
    """Tell whether SolKit has a model of an op's cost."""
    return bool(op.operator.cost) or torch.Tag.pointwise in op.tags


def cost_of(op: TracedOp) -> Cost | None:
    """Return the cost of an op; ``None`` if SolKit has no model for it."""
    if op.operator.cost:
        return _RULES[op.operator.cost](op)
    if torch.Tag.pointwise in op.tags:  # at least one operation per element
        return scalar(compute_like(op), op.result.distinct)
    return None


def rule(*kinds: str) -> Callable[[Rule], Rule]:
    """Register a function as the cost of operators with these `Operator.cost`."""

    def decorate(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(kinds, function))
        return function

    return decorate


def scalar(like: TensorUse, flops: int, sfu: int = 0) -> Cost:
    """Elementwise operations on the scalar pipe of a dtype, plus special-function results."""
    counts = {scalar_pipe(like.dtype): flops, "sfu": sfu}
    return Cost({pipe: count for pipe, count in counts.items() if count})


_PACKED = {torch.float16: "fp16", torch.bfloat16: "bf16"}


def scalar_pipe(dtype: torch.dtype) -> str:
    """Return the pipe of a dtype's elementwise operations."""
    if dtype in (torch.float64, torch.complex128):
        return "fp64"
    if dtype in _PACKED:
        return _PACKED[dtype]
    return "fp32" if dtype.is_floating_point or dtype.is_complex else "int32"


def compute_like(op: TracedOp) -> TensorUse:
    """Return the use whose dtype the math is done in: integers may be summed in fp64 on request."""
    result = op.result
    inexact = result.dtype.is_floating_point or result.dtype.is_complex
    return result if inexact or not op.inputs else op.inputs[0]


_CONTRACTION_DTYPES = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8",
    torch.float8_e5m2: "fp8",
    torch.float8_e4m3fnuz: "fp8",
    torch.float8_e5m2fnuz: "fp8",
    torch.float4_e2m1fn_x2: "fp4",
    torch.int8: "int8",
    torch.uint8: "int8",
}


def contraction_dtype(dtype: torch.dtype) -> str:
    """Return the dtype part of ``contraction.<dtype>``."""
    return _CONTRACTION_DTYPES.get(dtype, str(dtype).removeprefix("torch."))


_FLOATS = ("fp4", "fp8", "fp16", "bf16")
_INTEGERS = ("int4", "int8")


def common_dtype(*factors: TensorUse) -> str:
    """Return the dtype of the pipe that holds all factors of a product, without their scales.

    ``fp32*half`` where one factor is wide and 16 bits or less hold the other.
    """
    own = contraction_dtype(factors[0].dtype)
    kinds = {contraction_dtype(use.origin or use.dtype) for use in factors}
    if len(kinds) == 1:
        return kinds.pop()
    if kinds <= set(_INTEGERS):
        return "int8"
    narrow = kinds & {*_FLOATS, *_INTEGERS}
    if kinds == narrow:
        return _holding(narrow)
    return "fp32*half" if own == "fp32" and narrow else own


def _holding(kinds: set[str]) -> str:
    """Return the dtype of 16 bits or less that holds several: integers of 8 bits fit both halves.

    Scaled by powers of two, fp16 holds bf16 as well.
    """
    if kinds <= {"fp4", "fp8"}:
        return max(kinds, key=_FLOATS.index, default="")
    return "bf16" if kinds - {"bf16"} <= {"fp4", "fp8", "int4", "int8"} else "fp16"


def contraction(operand: TensorUse, multiply_adds: int, extra: int = 0, dtype: str = "") -> Cost:
    """Return a matrix product; `extra` counts elementwise operations on its result.

    Args:
        operand: a factor; its dtype is the product's unless `dtype` says another.
        multiply_adds: one for each m, n and element of `operand` along k.
        extra: elementwise operations, in the operand's dtype.
        dtype: as `common_dtype` gives it.
    """
    if operand.dtype == torch.float4_e2m1fn_x2:
        multiply_adds *= 2  # two numbers to an element
    is_integer = operand.dtype in (torch.int16, torch.int32, torch.int64, torch.bool)
    if is_integer and dtype not in _INTEGERS:
        dtype = "int8"  # sums of products of slices, at least one: how many, the data decide
    if operand.dtype.is_complex:  # (a+bi)(c+di): three real products instead of four (Gauss)
        real = "fp64" if operand.dtype == torch.complex128 else "fp32"
        return Cost({f"contraction.{real}": 6 * multiply_adds})
    counts = {f"contraction.{dtype or contraction_dtype(operand.dtype)}": 2 * multiply_adds}
    if extra:
        counts[scalar_pipe(operand.dtype)] = extra
    return Cost({key: count for key, count in counts.items() if count})
