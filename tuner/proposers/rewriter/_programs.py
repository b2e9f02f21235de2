"""Programs: which index each has, which constant tiles an axis, and several of them as one."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import (
    Parameter,
    arguments_of,
    changed,
    launch_line,
    options_of,
    with_params,
)
from solkit.tuner.proposers.rewriter._file import JitFunction, KernelText, Launch
from solkit.tuner.proposers.rewriter._lift import CannotLiftError
from solkit.tuner.proposers.rewriter._lift_body import lifted_body
from solkit.tuner.proposers.rewriter._syntax import (
    argument_of,
    assignment,
    called,
    calls,
    code,
    line,
    names,
    nodes,
    number,
    replace_each,
    with_body,
)

__all__ = [
    "axis_name",
    "axis_of",
    "block_constants",
    "grid_with",
    "lifted_axis",
    "tile_constants",
]

_PROGRAM = "tl.program_id"


def axis_of(call: cst.Call) -> int | None:
    """Return the axis that ``tl.program_id`` asks for."""
    axis = argument_of(call, 0, "axis")
    return None if axis is None else number(axis)


def axis_name(function: JitFunction, axis: int) -> str:
    """Return the name that holds the program's index along an axis; empty if none does."""
    for statement in function.body:
        binding = assignment(statement)
        if (
            binding is not None
            and called(binding.value) == _PROGRAM
            and not function_reassigns(function, binding.target)
            and axis_of(cst.ensure_type(binding.value, cst.Call)) == axis
        ):
            return binding.target
    return ""


def function_reassigns(function: JitFunction, name: str) -> bool:
    """Tell whether a name is assigned more than once."""
    bindings = [
        a for statement in function.body if (a := assignment(statement)) and a.target == name
    ]
    return len(bindings) > 1


def tile_constants(function: JitFunction) -> dict[str, int]:
    """Return the compile-time constants that tile an axis of the grid, each with its axis.

    Such a constant multiplies the program's index: ``tl.program_id(0) * BLOCK``.
    """
    constants: dict[str, int] = {}
    for axis in range(3):
        name = axis_name(function, axis)
        for node in _products(function.node):
            sides = [node.left, node.right]
            for one, other in (sides, sides[::-1]):
                mine = code(one) == name if name else False
                call = cst.ensure_type(one, cst.Call) if called(one) == _PROGRAM else None
                mine |= call is not None and axis_of(call) == axis
                if mine and code(other) in function.constants:
                    constants[code(other)] = axis
    return constants


def block_constants(function: JitFunction) -> set[str]:
    """Return the compile-time constants that are the size of a block at a place that is computed.

    As in ``pid_m * BLOCK + tl.arange(0, BLOCK)`` where ``pid_m`` follows from the program's index.
    """
    ranges = calls(function.node, "tl.arange")
    sizes = {code(end) for call in ranges if (end := argument_of(call, 1, "end")) is not None}
    constants = set()
    for node in _products(function.node):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(one, cst.Name) and code(other) in sizes & function.constants:
                constants.add(code(other))
    return constants


def _products(node: cst.CSTNode) -> list[cst.BinaryOperation]:
    operations = (
        operation for operation in nodes(node) if isinstance(operation, cst.BinaryOperation)
    )
    return [operation for operation in operations if isinstance(operation.operator, cst.Multiply)]


def grid_with(axes: Sequence[cst.BaseExpression], axis: int, changed_to: str) -> str:
    """Return the code of a grid with one axis changed."""
    listed = [changed_to if i == axis else code(size) for i, size in enumerate(axes)]
    return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"


def lifted_axis(text: KernelText, launch: Launch, axis: int, width: Parameter) -> str:
    """Return the file with the programs along an axis taken several at a time by one.

    Raises:
        CannotLiftError: the function has something that cannot be lifted.
    """
    function, axes = launch.function, launch.axes
    if axes is None or axis >= len(axes):
        raise CannotLiftError("a grid that cannot be read")
    name, body = _with_named_index(function, axis)
    count, valid = text.fresh(f"n_{name}"), text.fresh(f"{name}_mask")
    place = next(i for i, s in enumerate(body) if (a := assignment(s)) and a.target == name)
    if any(name in names(statement) for statement in body[:place]):
        raise CannotLiftError(name)
    head = [
        line(f"{name} = tl.program_id({axis}) * {width.name} + tl.arange(0, {width.name})"),
        line(f"{valid} = {name} < {count}"),
    ]
    rest = lifted_body(
        [*body[:place], *body[place + 1 :]], [name], width.name, valid, text.functions
    )
    new_body = [*rest[:place], *head, *rest[place:]]
    node = with_params(with_body(function.node, new_body), added=[count], constants=[width.name])
    size = code(axes[axis])
    arguments = _in_order(node, {**arguments_of(launch), count: size, width.name: width.name})
    statement = launch_line(
        function.name,
        grid_with(axes, axis, f"triton.cdiv({size}, {width.name})"),
        arguments,
        options_of(launch),
        {*function.constants, width.name},
    ).with_changes(leading_lines=launch.statement.leading_lines)
    return changed(
        text,
        functions={function.name: node},
        launches=[(launch.statement, [statement])],
        parameters=[width],
    )


def _in_order(node: cst.FunctionDef, arguments: dict[str, str]) -> dict[str, str]:
    order = [param.name.value for param in node.params.params]
    return {name: arguments[name] for name in order if name in arguments}


def _with_named_index(function: JitFunction, axis: int) -> tuple[str, list[cst.BaseStatement]]:
    """Return the body with the program's index along an axis held by a name, assigned first."""
    program_ids = [c for c in calls(function.node, _PROGRAM) if axis_of(c) == axis]
    if not program_ids:
        raise CannotLiftError(f"no index along axis {axis}")
    own = axis_name(function, axis)
    if own and len(program_ids) == 1:
        return own, function.body
    name = "pid" if "pid" not in function.names else f"pid_{axis}"
    body = [
        replace_each(
            statement,
            [
                (call, cst.Name(name))
                for call in calls(statement, _PROGRAM)
                if axis_of(call) == axis
            ],
        )
        for statement in function.body
    ]
    return name, [line(f"{name} = {_PROGRAM}({axis})"), *body]
