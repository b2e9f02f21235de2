"""Blocks that are loaded and stored turned, so that neighbouring lanes touch neighbours in memory.

A compiler gives neighbouring lanes the elements of a block's last axis, unless it sees that another
axis is contiguous. Behind a quotient or a remainder it does not see that: a convolution whose rows
are pixels, ``y = i // W % H`` and ``x = i % W``, reads with each lane from another channel. The
block of columns and rows has the pixels last, and ``tl.trans`` gives what was loaded before.

Which axis is contiguous follows from the launch: its pointers are evaluated for its first program,
with the numbers that it got. That decides what is worth it, not what is right.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import libcst as cst
import numpy as np

from solkit.tuner.proposers.rewriter._assignments import assignments_in
from solkit.tuner.proposers.rewriter._edit import changed_text
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Swap,
    Values,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    expand_names,
    integer_literal,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._operations import call_args, converted_value
from solkit.tuner.proposers.rewriter._parse import KernelText, Launch
from solkit.tuner.proposers.rewriter._shapes import operand_shapes
from solkit.tuner.proposers.rewriter._values import accessed_params

_ROWS, _COLUMNS = "[:, None]", "[None, :]"
_SPREADS = {_ROWS: _COLUMNS, _COLUMNS: _ROWS}
"""Subscripts that make a vector a block, each with that of the transposed block."""
_LEAST_GAIN = 4
"""A block is turned if it is contiguous over so many times more elements the other way."""
_OPERATORS: dict[type[cst.CSTNode], Callable[[Any, Any], Any]] = {
    cst.Add: operator.add,
    cst.Subtract: operator.sub,
    cst.Multiply: operator.mul,
    cst.FloorDivide: operator.floordiv,
    cst.Modulo: operator.mod,
    cst.BitAnd: operator.and_,
    cst.BitOr: operator.or_,
    cst.LessThan: operator.lt,
    cst.LessThanEqual: operator.le,
    cst.GreaterThan: operator.gt,
    cst.GreaterThanEqual: operator.ge,
    cst.Equal: operator.eq,
    cst.NotEqual: operator.ne,
}
_UNCHANGED = ("tl.max_contiguous", "tl.multiple_of", "tl.max_constancy", "tl.cast")
_Block = np.ndarray[Any, Any]
_Value = int | _Block | None


class TurnedBlocks:
    """A block whose first axis is contiguous in memory is loaded, or stored, turned.

    Applies to loads and stores of blocks of two axes whose pointer and mask are sums, products,
    quotients and comparisons of indices, where a quotient or a remainder hides from the compiler
    that the first axis is contiguous.
    """

    kind = "turned blocks"
    helps = ("scattered requests", "extra traffic", "uncoalesced")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        functions, count = dict[str, cst.FunctionDef | None](), 0
        for launch in text.single:
            pairs = list(_turned_accesses(launch, facts))
            if pairs:
                count += len(pairs)
                functions[launch.function.name] = replace_each(launch.function.node, pairs)
        if functions:
            what = "A block" if count == 1 else f"{count} blocks"
            why = facts.explain_factors("extra traffic")
            yield Variant(
                changed_text(text, functions=functions),
                f"{what} of {', '.join(functions)} {'is' if count == 1 else 'are'} accessed "
                f"turned, so that neighbouring lanes touch neighbours in memory{why}.",
            )


def _turned_accesses(launch: Launch, facts: Facts) -> Iterator[Swap]:
    blocks = _Blocks(launch, facts)
    stored = operand_shapes(launch.function, "tl.store", in_stores=True, place=1)
    for call in calls_within(launch.function.node, "tl.load", "tl.store"):
        is_store = called_name(call) == "tl.store"
        turned = _turned_call(call, blocks, is_store)
        if turned is not None and (not is_store or len(stored.get(id(call), ())) == 2):
            yield call, turned if is_store else parse_expression(f"tl.trans({render_code(turned)})")


def _turned_call(call: cst.Call, blocks: _Blocks, is_store: bool) -> cst.Call | None:
    """Return a load or a store of the transposed block; ``None`` if that gains nothing."""
    pointer = call.args[0].value
    if not blocks.gains(pointer):
        return None
    mask = argument_of(call, 2 if is_store else 1, "mask")
    other = None if is_store else argument_of(call, 2, "other")
    if other is not None and names_within(other) - {"float"}:
        return None  # it may be a block
    pairs: list[Swap] = []
    for part in (pointer, mask) if mask is not None else (pointer,):
        turned = blocks.turned(part, call)
        if turned is None:
            return None
        pairs.append((part, turned))
    if is_store:
        value = call.args[1].value
        pairs.append((value, parse_expression(f"tl.trans({render_code(value)})")))
    return replace_each(call, pairs)


@dataclass
class _Blocks:
    """Blocks of a launch's function, with their elements in its first program.

    Attributes:
        launch: the launch.
        facts: numbers that it got.
    """

    launch: Launch
    facts: Facts
    _values: dict[str, _Value] = field(default_factory=dict)

    @cached_property
    def _definitions(self) -> Values:
        """Values of names; of loops the first, of names that are assigned again, too."""
        values = dict[str, cst.BaseExpression]()
        for statement in walk_statements(self.launch.function.body):
            loop, binding = range_loop(statement), single_assignment(statement)
            if loop is not None:
                values.setdefault(loop.name, loop.start)
            elif binding is not None and not binding.operator:
                values.setdefault(binding.target, binding.value)
        return values

    @cached_property
    def _counts(self) -> Counter[str]:
        return Counter(assigned_names(*self.launch.function.body))

    def gains(self, pointer: cst.BaseExpression) -> bool:
        """Tell whether a pointer's block is contiguous along its first axis, and hides that."""
        places = self.value_of(pointer)
        if not isinstance(places, np.ndarray) or places.ndim != 2 or not self._hides(pointer):
            return False
        return _contiguous(places, 0) >= _LEAST_GAIN * _contiguous(places, 1)

    def _hides(self, pointer: cst.BaseExpression) -> bool:
        """Tell whether an index of the first axis is made by a division."""
        whole = expand_names(pointer, self._plain)
        rows = [
            n for n in nodes_within(whole) if isinstance(n, cst.Subscript) and _axes(n) == _ROWS
        ]
        divisions = (cst.FloorDivide, cst.Modulo)
        return any(isinstance(node, divisions) for node in nodes_within(*rows))

    def _plain(self, name: str) -> cst.BaseExpression | None:
        return self._definitions.get(name) if self._counts[name] == 1 else None

    def turned(self, node: cst.BaseExpression, at: cst.Call) -> cst.BaseExpression | None:
        """Return the transposed block of indices at an access; ``None`` if it cannot be told."""
        value, spread = self.value_of(node), _SPREADS.get(_axes(node))
        if isinstance(node, cst.Subscript) and spread is not None:
            is_vector = isinstance(self.value_of(node.value), np.ndarray)
            code = render_code(parenthesized(node.value))
            return parse_expression(f"{code}{spread}") if is_vector else None
        if isinstance(value, int):
            return node if self._is_number(node) else None
        if value is not None and value.ndim < 2:
            return None  # it spreads along the last axis, without a subscript that says so
        if isinstance(node, cst.Name) and (block := self._plain(node.value)) is not None:
            turned = self.turned(block, at) if self._holds(block, at) else None
            return None if turned is None else parenthesized(turned)
        if not isinstance(node, (cst.BinaryOperation, cst.Comparison, cst.Call)):
            return None
        pairs = [(part, self.turned(part, at)) for part in _operands(node)]
        plain = [(old, new) for old, new in pairs if new is not None]
        return replace_each(node, plain) if plain and len(plain) == len(pairs) else None

    def _is_number(self, node: cst.BaseExpression) -> bool:
        """Tell whether names that are assigned again are numbers each time."""
        names = {name for name in names_within(node) if self._counts[name] > 1}
        bindings = assignments_in(walk_statements(self.launch.function.body))
        values = [b.value for b in bindings if b.target in names]
        return all(isinstance(self.value_of(value), int) for value in values)

    def _holds(self, block: cst.BaseExpression, at: cst.Call) -> bool:
        """Tell whether names of a block's definition are what they were, where it is accessed."""
        loops = {
            render_code(loop.target): loop
            for loop in walk_statements(self.launch.function.body)
            if isinstance(loop, cst.For)
        }
        names = names_within(block)
        within = [loops[name] for name in names if name in loops]
        return all(self._counts[name] <= 1 for name in names) and all(
            any(node is at for node in nodes_within(loop.body)) for loop in within
        )

    def value_of(self, node: cst.BaseExpression) -> _Value:
        """Return the elements of an index in the first program; ``None`` if they are not known."""
        number = integer_literal(node)
        if number is not None:
            return number
        if isinstance(node, cst.Name):
            return self._value_of_name(node.value)
        if isinstance(node, cst.BinaryOperation):
            return _combined(node.operator, self.value_of(node.left), self.value_of(node.right))
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            (to,) = node.comparisons
            return _combined(to.operator, self.value_of(node.left), self.value_of(to.comparator))
        if isinstance(node, cst.Subscript):
            vector = self.value_of(node.value)
            is_vector = isinstance(vector, np.ndarray) and vector.ndim == 1
            if not is_vector or not isinstance(vector, np.ndarray) or _axes(node) not in _SPREADS:
                return None
            return vector[:, None] if _axes(node) == _ROWS else vector[None, :]
        return self._value_of_call(node) if isinstance(node, cst.Call) else None

    def _value_of_name(self, name: str) -> _Value:
        if name not in self._values:
            self._values[name] = None  # of what is made of itself nothing is known
            value, argument = self._definitions.get(name), self.launch.arguments.get(name)
            if value is not None:
                self._values[name] = self.value_of(value)
            elif name in self._pointers:
                self._values[name] = 0
            elif argument is not None:
                self._values[name] = self.facts.size(argument, self.launch)
        return self._values[name]

    @cached_property
    def _pointers(self) -> set[str]:
        """Parameters that loads and stores go through."""
        return accessed_params(self.launch.function)

    def _value_of_call(self, call: cst.Call) -> _Value:
        name = called_name(call)
        if name == "tl.program_id":
            return 0
        parts = [self.value_of(part) for part in _operands(call)]
        if name in ("tl.arange", "tl.cdiv") and len(parts) == 2:
            one, two = parts
            if not isinstance(one, int) or not isinstance(two, int):
                return None
            return np.arange(one, two) if name == "tl.arange" else -(-one // two)
        is_same = name in _UNCHANGED or converted_value(call) is not None
        return parts[0] if is_same else None


def _operands(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the parts of an operation that may be blocks."""
    if isinstance(node, cst.BinaryOperation):
        return [node.left, node.right]
    if isinstance(node, cst.Comparison):
        return [node.left, *(target.comparator for target in node.comparisons)]
    if (inner := converted_value(node)) is not None:
        return [inner]
    plain = call_args(node)
    return plain[:1] if called_name(node) in _UNCHANGED else plain


def _axes(node: cst.BaseExpression) -> str:
    """Return the subscript that spreads a vector along an axis of a block, with its brackets."""
    if not isinstance(node, cst.Subscript):
        return ""
    return f"[{', '.join(render_code(element.slice) for element in node.slice)}]"


def _combined(operator: cst.CSTNode, one: _Value, two: _Value) -> _Value:
    compute = _OPERATORS.get(type(operator))
    if compute is None or one is None or two is None:
        return None
    if isinstance(operator, (cst.FloorDivide, cst.Modulo)) and not np.all(two):
        return None
    try:
        value = compute(one, two)
    except ValueError:  # the name of one stands for a block of another length here
        return None
    return value if isinstance(value, np.ndarray) else int(value)


def _contiguous(places: _Block, axis: int) -> float:
    """Return how many elements follow each other in memory along an axis, in the mean."""
    lines = places.size / places.shape[axis]
    breaks = np.count_nonzero(np.diff(places, axis=axis) != 1)
    return float(places.size / (lines + breaks))
