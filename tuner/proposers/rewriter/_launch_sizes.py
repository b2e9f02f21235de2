"""Integers of a launcher's expressions, from what launches of the original file got.

A launch is measured with its arguments and its grid. So the text of each argument and of each axis
of the grid has a value, and grids of rewritten launches are made of the same texts, of numbers, and
of the launcher's parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import libcst as cst

from solkit.core import Brief, TensorLayout
from solkit.tuner.proposers.rewriter._nodes import called_name, compact_code, integer_literal
from solkit.tuner.proposers.rewriter._parse import KernelText, Launch, launcher_definition

_MOST_DEFINITIONS = 30  # of definitions that name definitions


def measured_values(text: KernelText, brief: Brief) -> dict[str, int]:
    """Return integers by the code that stands for them in the launcher of the measured file."""
    if brief.result is None:
        return {}
    values: dict[str, int] = {}
    records = {kernel.launch.name: kernel.launch for kernel in brief.result.analysis.own}
    for launch in text.single:
        record = records.get(launch.function.name)
        if record is None:
            continue
        values |= {
            _key(axis): size for axis, size in zip(launch.axes or (), record.grid, strict=False)
        }
        for name, argument in launch.arguments.items():
            bound = record.arguments.get(name)
            value = record.constants.get(name) if bound is None else bound.value
            if isinstance(value, int) and not isinstance(value, bool):
                values[_key(argument)] = value
    return values


def measured_tensors(text: KernelText, brief: Brief) -> dict[str, TensorLayout]:
    """Return the tensors that launches got, by their code in the launcher."""
    if brief.result is None:
        return {}
    records = {kernel.launch.name: kernel.launch for kernel in brief.result.analysis.own}
    return {
        _key(argument): bound.tensor
        for launch in text.single
        if (record := records.get(launch.function.name)) is not None
        for name, argument in launch.arguments.items()
        if (bound := record.arguments.get(name)) is not None and bound.tensor is not None
    }


def programs_of(launch: Launch, values: Mapping[str, int]) -> int | None:
    """Return how many programs a launch starts; ``None`` if its grid says more than is known."""
    sizes = [_Values(launch, values).of(axis) for axis in launch.axes or ()]
    numbers = [size for size in sizes if size is not None]
    return math.prod(numbers) if numbers and len(numbers) == len(sizes) else None


def size_of(node: cst.BaseExpression, launch: Launch, values: Mapping[str, int]) -> int | None:
    """Return an integer of a launch's launcher; ``None`` if it is not known."""
    return _Values(launch, values).of(node)


def constants_of(launch: Launch, values: Mapping[str, int]) -> dict[str, int]:
    """Return the compile-time constants of a launch that are known integers."""
    constants = {
        name: _Values(launch, values).of(argument)
        for name, argument in launch.arguments.items()
        if name in launch.function.constants
    }
    return {name: value for name, value in constants.items() if value is not None}


def _key(node: cst.BaseExpression) -> str:
    return compact_code(node)


class _Values:
    """Evaluates expressions of a launch's launcher.

    Args:
        launch: in whose launcher they stand.
        values: by code.
    """

    def __init__(self, launch: Launch, values: Mapping[str, int]) -> None:
        self._launcher, self._values, self._steps = launch.launcher, values, 0

    def of(self, node: cst.BaseExpression) -> int | None:
        """Return the value of an expression; ``None`` if it is not known."""
        self._steps += 1
        if self._steps > _MOST_DEFINITIONS:
            return None
        number = integer_literal(node)
        if number is None:
            number = self._values.get(_key(node))
        if number is not None:
            return number
        if isinstance(node, cst.Name):
            return self._of_name(node.value)
        if isinstance(node, cst.BinaryOperation):
            return _combined(node, self.of(node.left), self.of(node.right))
        return self._of_call(node) if isinstance(node, cst.Call) else None

    def _of_name(self, name: str) -> int | None:
        for param in self._launcher.params.kwonly_params:
            if param.name.value == name:
                return integer_literal(param.default)
        value = launcher_definition(name, self._launcher)
        return None if value is None else self.of(value)

    def _of_call(self, call: cst.Call) -> int | None:
        args = [self.of(arg.value) for arg in call.args]
        numbers = [arg for arg in args if arg is not None]
        name = called_name(call)
        if not numbers or len(numbers) < len(args):
            return min(numbers) if name == "min" and numbers else None
        if name in ("triton.cdiv", "tl.cdiv") and len(numbers) == 2 and numbers[1]:
            return -(-numbers[0] // numbers[1])
        if name == "triton.next_power_of_2":
            return int(1 << max(numbers[0] - 1, 0).bit_length())
        return {"min": min, "max": max}[name](numbers) if name in ("min", "max") else None


def _combined(node: cst.BinaryOperation, one: int | None, two: int | None) -> int | None:
    if one is None or two is None:
        return None
    if isinstance(node.operator, cst.Multiply):
        return one * two
    if isinstance(node.operator, cst.FloorDivide) and two:
        return one // two
    if isinstance(node.operator, cst.Add):
        return one + two
    return one - two if isinstance(node.operator, cst.Subtract) else None
