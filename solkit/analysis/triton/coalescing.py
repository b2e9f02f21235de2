"""Runs of elements that one access can move: aligned, one after the other, under one mask.

As in triton/lib/Analysis/AxisInfo.cpp, from what is known about arguments before a launch.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping, Sequence

from solkit.adapters.triton_ir import Function, Operation, TensorType
from solkit.analysis.triton.layouts import tensor_spread
from solkit.analysis.triton.relevance import ACCESSES, mask_operand

_KEEP_DIVISORS = {
    *("arith.addi", "arith.subi", "arith.remsi", "arith.minsi", "arith.maxsi", "arith.select"),
    *("arith.cmpi", "arith.andi", "arith.ori", "arith.extsi", "arith.extui", "arith.trunci"),
    *("tt.splat", "tt.broadcast", "tt.expand_dims", "tt.addptr", "arith.remui"),
    "ttg.convert_layout",
}
"""Operations whose result is a multiple of whatever all operands are multiples of."""


def mask_runs(function: Function) -> Mapping[Operation, int]:
    """Return, for each masked access, elements in a row for which its mask is constant.

    As in triton/lib/Analysis/AxisInfo.cpp: a comparison of indices in a row with a bound is
    constant over what divides both.
    """
    operations = [operation for block in function.blocks for operation in block.walk()]
    divisors = _Divisors(function, operations)
    runs: dict[Operation, int] = {}
    for operation in operations:
        mask = mask_operand(operation) if operation.name in ACCESSES else None
        if mask is not None and operation.all_types[0].layout is not None:
            with contextlib.suppress(ValueError):  # of a layout that is not known
                dim = tensor_spread(operation.all_types[0]).row_dimension
                runs[operation] = divisors.of(mask, dim) or 1 << 30
    return runs


def access_runs(function: Function) -> Mapping[Operation, int]:
    """Return elements in a row that one access may move, for each access; 0 stands for any number.

    Their addresses must follow each other from an aligned one, and share a mask.
    """
    operations = [operation for block in function.blocks for operation in block.walk()]
    masks, addresses = (_Divisors(function, operations, exact) for exact in (False, True))
    runs: dict[Operation, int] = {}
    for operation in operations:
        if operation.name not in ACCESSES or not operation.operands:
            continue
        kind = operation.all_types[0]
        if kind.layout is None or not kind.element.startswith("!tt.ptr"):
            continue
        with contextlib.suppress(ValueError):  # of a layout that is not known
            dim = tensor_spread(kind).row_dimension
            pointer, mask = operation.operands[0], mask_operand(operation)
            in_a_row = addresses.step(pointer, dim) == 1
            aligned = addresses.of(pointer, dim) if in_a_row else 1
            runs[operation] = math.gcd(aligned, masks.of(mask, dim) if mask else 0)
    return runs


_ANY = -1
"""In place of a dimension: each element, not just the first of each run."""


class _Divisors:
    """The largest known divisor of the first of any aligned run of a value's elements.

    Of a mask, the length of the runs for which it is constant. 0 stands for infinity: what does not
    change along a run counts as that, unless the divisors are exact.
    """

    def __init__(
        self, function: Function, operations: Sequence[Operation], exact: bool = False
    ) -> None:
        self.exact = exact
        self.made = {name: operation for operation in operations for name in operation.results}
        self.known: dict[tuple[str, int], int] = {}
        self.bases = dict.fromkeys(function.divisible, 16)
        for name, kind in function.arguments:  # 16 bytes, in elements
            if name in self.bases and kind.startswith("!tt.ptr"):
                self.bases[name] = max(128 // TensorType((), kind).pointee_bits, 1)
        self.steps: dict[tuple[str, int], int | None] = {}
        self.carried: dict[str, tuple[str, str]] = {}
        for operation in operations:
            if operation.name == "scf.for":
                loop = operation.loop
                yielded = operation.blocks[0].operations[-1].operands if loop.names else ()
                pairs = zip(loop.starts, yielded, strict=True)
                self.carried |= dict(zip(loop.names, pairs, strict=True))
                self.carried[loop.variable] = loop.bounds[0], loop.bounds[2]

    def of(self, name: str, dim: int) -> int:
        """Return the divisor of a value, along a dimension."""
        key = name, dim
        if key not in self.known:
            self.known[key] = 0  # what a loop passes on to itself adds nothing
            self.known[key] = self._found(name, dim)
        return self.known[key]

    def step(self, name: str, dim: int) -> int | None:
        """Return a value's growth from one element to the next in a run; ``None`` if unknown."""
        key = name, dim
        if key not in self.steps:
            self.steps[key] = 0
            self.steps[key] = self._step(name, dim)
        return self.steps[key]

    def _step(self, name: str, dim: int) -> int | None:
        if name in self.carried:
            return self.step(self.carried[name][0], dim)
        operation = self.made.get(name)
        if operation is None or operation.name in ("tt.splat", "arith.constant"):
            return 0
        kind = operation.name
        if kind == "tt.make_range":
            return 1
        if _repeats_along_dimension(operation, dim):
            return 0
        if kind == "tt.expand_dims":
            axis = operation.attribute("axis") or 0
            if axis == dim:
                return 0
            dim -= axis < dim
        if kind in ACCESSES or not operation.operands:
            return None
        steps = [self.step(operand, dim) for operand in operation.operands]
        if None in steps:
            return None
        if kind in ("arith.addi", "tt.addptr"):
            return sum(step for step in steps if step)
        if kind in ("arith.divsi", "arith.divui") or not any(steps):
            return 0  # the run is shorter where the quotient changes
        if kind in ("arith.muli", "arith.subi", "arith.remsi", "arith.remui"):
            return steps[0] if kind != "arith.muli" else None
        return steps[0] if kind in _KEEP_DIVISORS or kind == "ttg.convert_layout" else None

    def _found(self, name: str, dim: int) -> int:
        if name in self.carried:
            return math.gcd(*(self.of(source, dim) for source in self.carried[name]))
        operation = self.made.get(name)
        if operation is None:
            return self.bases.get(name, 1)
        if operation.name == "tt.make_range":
            return 1 if dim == _ANY else operation.attribute("start") or 0
        if operation.name == "arith.constant":
            number = re.search(r"\d+", operation.text)
            return int(number.group()) if number else 0
        if operation.name == "tt.splat" and operation.result_type.element == "i1":
            return 0
        if _repeats_along_dimension(operation, dim) and not self.exact:
            return 0
        if operation.name == "tt.expand_dims" and dim != _ANY:
            axis = operation.attribute("axis") or 0
            dim = _ANY if self.exact and axis == dim else dim - (axis < dim)
        inputs = [self.of(operand, dim) for operand in operation.operands]
        if operation.name == "arith.muli":
            return math.prod(inputs)
        return math.gcd(*inputs) if operation.name in _KEEP_DIVISORS else 1


def _repeats_along_dimension(operation: Operation, dim: int) -> bool:
    """Tell whether it repeats a single element along a dimension.

    Behind a reshape the operand may have fewer dimensions than the value that was asked about.
    """
    if operation.name != "tt.broadcast":
        return False
    shape = operation.all_types[0].shape
    return dim < len(shape) and shape[dim] == 1
