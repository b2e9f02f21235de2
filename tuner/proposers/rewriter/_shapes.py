"""Shapes of a function's blocks, as code, by Triton's rules of broadcasting.

What is not known counts as a scalar, so a shape is never larger than the block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    argument_of,
    called_name,
    calls_within,
    integer_literal,
    render_code,
    single_assignment,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction

Shape = tuple[str, ...]

_REDUCTIONS = ("sum", "max", "min", "argmax", "argmin", "reduce", "xor_sum")
_SHAPED = {"tl.zeros": 0, "tl.full": 0, "tl.reshape": 1, "tl.broadcast_to": 1, "tl.view": 1}


def block_shapes(function: JitFunction) -> set[Shape]:
    """Return the shapes of all blocks that a function computes, loads or stores."""
    return _shapes_in(function).seen


def product_shapes(function: JitFunction) -> set[Shape]:
    """Return the shapes of what ``tl.dot`` makes; an empty one if it is not known."""
    return _shapes_in(function).products


def mixes_lengths(function: JitFunction, one: str, other: str = "") -> bool:
    """Tell whether a function has an operation on two blocks with two lengths along one axis.

    Args:
        function: with the operation.
        one: a length.
        other: the other length; any other one by default.
    """
    mixed = [lengths for lengths in _shapes_in(function).mixed if one in lengths]
    return any(other in lengths if other else len(lengths) > 1 for lengths in mixed)


def _shapes_in(function: JitFunction) -> Shapes:
    worker = Shapes()
    for statement in walk_statements(function.body):
        worker.follow(statement)
    return worker


def operand_shapes(
    function: JitFunction, *calls: str, in_stores: bool = False, place: int = 0
) -> dict[int, Shape]:
    """Return the shapes of operands of calls in assignments, by the calls' identities.

    Args:
        function: whose calls they are.
        calls: names of functions.
        in_stores: whether calls in other statements count, too.
        place: of the operand among a call's arguments.
    """
    worker, shapes = Shapes(), dict[int, Shape]()
    for statement in walk_statements(function.body):
        binding = single_assignment(statement)
        is_store = in_stores and isinstance(statement, cst.SimpleStatementLine)
        if binding is None and not is_store:
            continue
        for call in calls_within(statement, *calls):
            is_there = len(call.args) > place
            shapes[id(call)] = worker.shape_of(call.args[place].value) if is_there else ()
        if binding is not None:
            worker.names[binding.target] = worker.shape_of(binding.value)
    return shapes


def shape_of(node: cst.BaseExpression) -> Shape:
    """Return the shape of an expression in which all names are numbers or pointers."""
    return Shapes().shape_of(node)


def elements_of(shape: Shape, sizes: Mapping[str, int]) -> int:
    """Return the elements of a block; an axis of unknown size counts as 1."""
    return math.prod(int(size) if size.isdigit() else sizes.get(size, 1) for size in shape)


@dataclass
class Shapes:
    """Shapes of what statements compute, in their order.

    Attributes:
        names: of names.
        seen: of all expressions.
        products: of those that are products.
        mixed: pairs of lengths along one axis of an operation.
    """

    names: dict[str, Shape] = field(default_factory=dict)
    seen: set[Shape] = field(default_factory=set)
    products: set[Shape] = field(default_factory=set)
    mixed: set[frozenset[str]] = field(default_factory=set)

    def follow(self, statement: cst.BaseStatement) -> None:
        """Add the shapes of a statement, and of the name that it assigns."""
        binding = single_assignment(statement)
        if binding is not None:
            self.names[binding.target] = self.shape_of(binding.value)
        elif isinstance(statement, cst.SimpleStatementLine):
            for call in calls_within(statement):
                self.shape_of(call)

    def shape_of(self, node: cst.BaseExpression) -> Shape:
        """Return the shape of an expression; empty if it is not known."""
        shape = self._shape_of(node)
        self.seen.add(shape)
        return shape

    def _shape_of(self, node: cst.BaseExpression) -> Shape:
        if isinstance(node, cst.Name):
            return self.names.get(node.value, ())
        if isinstance(node, (cst.BinaryOperation, cst.BooleanOperation)):
            return self._broadcast([self.shape_of(node.left), self.shape_of(node.right)])
        if isinstance(node, cst.Comparison):
            others = [self.shape_of(target.comparator) for target in node.comparisons]
            return self._broadcast([self.shape_of(node.left), *others])
        if isinstance(node, cst.UnaryOperation):
            return self.shape_of(node.expression)
        if isinstance(node, cst.Subscript):
            return self._with_axes(node)
        return self._shape_of_call(node) if isinstance(node, cst.Call) else ()

    def _with_axes(self, node: cst.Subscript) -> Shape:
        rest = list(self.shape_of(node.value))
        entries = [render_code(element.slice) for element in node.slice]
        if not set(entries) <= {":", "None"} or entries.count(":") != len(rest):
            return ()
        return tuple("1" if entry == "None" else rest.pop(0) for entry in entries)

    def _shape_of_call(self, node: cst.Call) -> Shape:
        name = called_name(node)
        if name == "tl.arange":
            end = argument_of(node, 1, "end")
            return () if end is None else (render_code(end),)
        if name in _SHAPED:
            shape = argument_of(node, _SHAPED[name], "shape")
            if not isinstance(shape, (cst.Tuple, cst.List)):
                return ()
            return tuple(render_code(element.value) for element in shape.elements)
        if name == "tl.dot":
            one, two = (self.shape_of(arg.value) for arg in node.args[:2])
            product = (*one[:-1], two[-1]) if one and two else ()
            self.products.add(product)
            return product
        args = [self.shape_of(arg.value) for arg in node.args]
        method = isinstance(node.func, cst.Attribute) and not _is_module(node.func.value)
        if method and isinstance(node.func, cst.Attribute):
            args.insert(0, self.shape_of(node.func.value))
        word = name.rsplit(".", 1)[-1]
        if word in _REDUCTIONS and args:
            return _reduced(args[0], argument_of(node, 0 if method else 1, "axis"))
        if word in ("trans", "T"):
            return args[0][::-1] if args else ()
        return self._broadcast(args)

    def _broadcast(self, shapes: Sequence[Shape]) -> Shape:
        for sizes in zip(*(shape[::-1] for shape in shapes if shape), strict=False):
            self.mixed.add(frozenset(sizes) - {"1"})
        return broadcast_shapes(shapes)


def _is_module(node: cst.BaseExpression) -> bool:
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name) and node.value in ("tl", "triton", "libdevice")


def _reduced(shape: Shape, axis: cst.BaseExpression | None) -> Shape:
    place = integer_literal(axis) if axis is not None else None
    if place is None or place >= len(shape):
        return ()
    return (*shape[:place], *shape[place + 1 :])


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """Return the shape of an operation on blocks of these shapes."""
    rank = max(map(len, shapes), default=0)
    whole = [("1",) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(next((s for s in sizes if s != "1"), "1") for sizes in zip(*whole, strict=True))
