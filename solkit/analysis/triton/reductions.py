"""Reductions and scans of known integers: ``tl.sum``, ``tl.max``, ``tl.cumsum``, ``tl.argmax`` ...

The region of the operation says how two elements become one. It is run on whole arrays: halves of
an axis for a reduction, the axis against itself moved by 1, 2, 4 ... for a scan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from solkit.adapters.triton_ir import Block, Operation
from solkit.analysis.triton.arithmetic import (
    ARITHMETIC,
    aligned_ranks,
    constant,
    integer_comparison,
    integer_operation,
)
from solkit.analysis.triton.floats import float_constant, on_floats

Array = np.ndarray[Any, np.dtype[Any]]
Combine = Callable[[Sequence[Array], Sequence[Array]], list[Array]]

FOLDS = {"tt.reduce", "tt.scan"}


def fold_region(
    operation: Operation, values: Sequence[Array], outside: Mapping[str, Any]
) -> list[Array] | None:
    """Return the results of a reduction or a scan; ``None`` if its region is not understood.

    Args:
        operation: the reduction or scan.
        values: of its operands, for whole tensors; axes of size 1 do not vary.
        outside: values by name, of which the region may use numbers.
    """
    combine = _combining(operation.blocks[0], len(values), outside)
    if combine is None:
        return None
    axis = 1 + (operation.attribute("axis") or 0)
    shape = operation.all_types[0].shape
    wide = [_widened_to_axis(value, axis, shape[axis - 1]) for value in values]
    if operation.name == "tt.reduce":
        return _reduced_along_axis(wide, axis, combine)
    if "reverse = true" in operation.text:
        wide = [np.flip(value, axis) for value in wide]
        return [np.flip(value, axis) for value in _scanned_along_axis(wide, axis, combine)]
    return _scanned_along_axis(wide, axis, combine)


def _widened_to_axis(value: Array, axis: int, size: int) -> Array:
    shape = list(value.shape)
    shape[axis] = size
    return np.broadcast_to(value, shape)


def _reduced_along_axis(values: Sequence[Array], axis: int, combine: Combine) -> list[Array]:
    while values[0].shape[axis] > 1:
        lhs, rhs = ([_every_other(value, axis, start) for value in values] for start in (0, 1))
        values = combine(lhs, rhs)
    return [value.squeeze(axis) for value in values]


def _every_other(value: Array, axis: int, start: int) -> Array:
    return value[(slice(None),) * axis + (slice(start, None, 2),)]


def _scanned_along_axis(values: Sequence[Array], axis: int, combine: Combine) -> list[Array]:
    scanned = list(values)
    size, ahead = scanned[0].shape[axis], 1
    while ahead < size:
        lhs = [_slice_along_axis(value, axis, 0, size - ahead) for value in scanned]
        rhs = [_slice_along_axis(value, axis, ahead, size) for value in scanned]
        joined = combine(lhs, rhs)
        scanned = [
            np.concatenate([_slice_along_axis(value, axis, 0, ahead), rest], axis)
            for value, rest in zip(scanned, joined, strict=True)
        ]
        ahead *= 2
    return scanned


def _slice_along_axis(value: Array, axis: int, start: int, end: int) -> Array:
    return value[(slice(None),) * axis + (slice(start, end),)]


def _combining(block: Block, count: int, outside: Mapping[str, Any]) -> Combine | None:
    """Return the region as a function of two elements, each of so many values."""
    steps = [(operation, _computing(operation)) for operation in block.operations[:-1]]
    if any(compute is None for _, compute in steps) or len(block.arguments) != 2 * count:
        return None
    results = block.operations[-1].operands
    own = {*block.arguments, *(name for step, _ in steps for name in step.results)}
    used = {name for operation in block.operations for name in operation.operands} - own
    numbers = {name: outside.get(name) for name in used}
    if not all(isinstance(value, np.ndarray) and value.size == 1 for value in numbers.values()):
        return None

    def combine(lhs: Sequence[Array], rhs: Sequence[Array]) -> list[Array]:
        env = numbers | dict(zip(block.arguments, (*lhs, *rhs), strict=True))
        for operation, compute in steps:
            assert compute is not None
            env[operation.results[0]] = compute(*(env[name] for name in operation.operands))
        return [env[name] for name in results]

    return combine


def _selected_values(*values: Array) -> Array:
    chosen, first, second = aligned_ranks(values)
    return np.where(chosen, first, second)


def _computing(operation: Operation) -> Callable[..., Array] | None:
    name = operation.name
    if name == "arith.constant":
        value = constant(operation)
        value = float_constant(operation) if value is None else value
        return None if value is None else lambda: value
    if name in ARITHMETIC:
        return integer_operation(operation)
    if name == "arith.cmpi":
        return integer_comparison(operation)
    if name == "arith.select":
        return _selected_values
    return on_floats(operation)
