"""Places of accesses to tiles: the start, the block and the stride along each axis.

An expression of offsets becomes a sum of products of names, so that it does not matter in which
order and through which names a kernel writes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    HINTS,
    RANGES,
    Body,
    Loop,
    Values,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    names_within,
    parenthesized,
    parse_expression,
    product_factors,
    range_loop,
    render_code,
    running_updates,
    single_assignment,
    statements_of,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._operations import (
    compared_sides,
    converted_value,
    is_operation,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction

_SCALARS = ("tl.program_id", "tl.num_programs", "tl.cdiv", "tl.swizzle2d", "min", "max")
_PLAIN = (*_SCALARS, *RANGES)
"""Calls that give scalars if they get scalars."""
_AXES = {(":", "None"): 0, ("None", ":"): 1}


class OtherFormError(Exception):
    """An expression is of another form."""


@dataclass(frozen=True)
class Term:
    """A product.

    Attributes:
        factors: as written; none for 1.
        axis: along which it varies; ``None`` if it is the same for the whole tile, or has one axis.
        block: the size of the ``tl.arange`` that is one more factor; empty if there is none.
        sign: 1 or -1.
    """

    factors: tuple[str, ...] = ()
    axis: int | None = None
    block: str = ""
    sign: int = 1

    def times(self, other: Term) -> Term:
        """Return the product of both."""
        if (self.block and other.block) or None not in (self.axis, other.axis):
            raise OtherFormError
        axis = other.axis if self.axis is None else self.axis
        factors = self.factors + other.factors
        return Term(factors, axis, self.block or other.block, self.sign * other.sign)

    def over(self, divisor: Sequence[str]) -> Term | None:
        """Divide the term by these factors; ``None`` if it lacks one."""
        factors = list(self.factors)
        for factor in divisor:
            if factor not in factors:
                return None
            factors.remove(factor)
        return replace(self, factors=tuple(factors))


@dataclass(frozen=True)
class Sum:
    """A sum of products."""

    terms: tuple[Term, ...] = ()

    def combined_with(self, other: Sum, sign: int = 1) -> Sum:
        """Return the sum of both, or the difference."""
        return Sum((*self.terms, *(replace(t, sign=t.sign * sign) for t in other.terms)))

    def times(self, other: Sum) -> Sum:
        """Return the product of both."""
        return Sum(tuple(one.times(two) for one in self.terms for two in other.terms))

    @property
    def key(self) -> frozenset[tuple[tuple[str, tuple[str, ...]], int]]:
        """The same for equal sums."""
        count: Counter[tuple[str, tuple[str, ...]]] = Counter()
        for term in self.terms:
            count[term.block, tuple(sorted(term.factors))] += term.sign
        return frozenset((what, times) for what, times in count.items() if times)

    @property
    def code(self) -> str:
        """The sum as an expression: what cancels is left out."""
        counts, parts = dict(self.key), ""
        for term in self.terms:
            times = counts.pop((term.block, tuple(sorted(term.factors))), 0)
            if times and (term.block or abs(times) > 1):
                raise OtherFormError
            if times:
                sign = "-" if times < 0 else "+"
                parts += f" {sign} {' * '.join(term.factors) or '1'}"
        return parts.removeprefix(" + ").strip() or "0"


@dataclass(frozen=True)
class Scope:
    """Meanings of names at a statement.

    Attributes:
        function: it is in.
        scalars: names that never hold a block.
        values: of names whose last assignment is known and still holds.
        loops: around the statement, by their variables.
    """

    function: JitFunction
    scalars: frozenset[str]
    values: Values = field(default_factory=dict)
    loops: Mapping[str, Loop] = field(default_factory=dict)

    def without(self, gone: Iterable[str]) -> Scope:
        """Return the scope after these names got other values."""
        lost = set(gone)
        kept = {
            n: v for n, v in self.values.items() if n not in lost and not names_within(v) & lost
        }
        loops = {n: loop for n, loop in self.loops.items() if n not in lost}
        return replace(self, values=kept, loops=loops)

    def after(self, statement: cst.BaseStatement) -> Scope:
        """Return the scope after a simple statement."""
        scope, binding = self.without(assigned_names(statement)), single_assignment(statement)
        if binding is None or binding.target in names_within(binding.value):
            return scope
        return replace(scope, values={**scope.values, binding.target: binding.value})

    def within(self, statement: cst.BaseStatement) -> Scope:
        """Return the scope at the start of a compound statement's body, on any trip."""
        scope, loop = self.without(assigned_names(statement)), range_loop(statement)
        if loop is None:
            return scope
        moved = dict(self._moved_names(loop))
        return replace(
            scope, values={**scope.values, **moved}, loops={**scope.loops, loop.name: loop}
        )

    def _moved_names(self, loop: Loop) -> Iterator[tuple[str, cst.BaseExpression]]:
        """Yield names that grow by the same on each trip, such as pointers, with their values."""
        varying = {loop.name, *assigned_names(*loop.body)}
        for binding in running_updates(loop).values():
            before, by = self.values.get(binding.target), _after_trips(loop, binding.operand)
            if (
                binding.operator != "+="
                or before is None
                or not by
                or names_within(before) & varying
            ):
                continue
            yield binding.target, parse_expression(f"{render_code(parenthesized(before))} + {by}")

    def terms(self, node: cst.BaseExpression) -> Sum:
        """Return an expression as a sum, with names of blocks replaced by what they stand for.

        Raises:
            OtherFormError: it is none.
        """
        if isinstance(node, cst.BinaryOperation):
            return self._operation(node)
        if isinstance(node, cst.Subscript):
            inner, axis = self.terms(node.value), _broadcast_axis(node)
            if any(term.axis is not None for term in inner.terms):
                raise OtherFormError
            return Sum(tuple(replace(term, axis=axis) for term in inner.terms))
        if isinstance(node, cst.Name) and node.value not in self.scalars:
            return self.terms(self.value(node))
        if isinstance(node, cst.Call) and (inside := _without_hints(node)) is not None:
            return self.terms(inside)
        if called_name(node) == "tl.arange":
            return _range_sum(cst.ensure_type(node, cst.Call))
        if not _is_scalar(node, self.scalars):
            raise OtherFormError
        return _atomic_sum(render_code(parenthesized(node)))

    def expanded(self, total: Sum) -> Sum:
        """Return a sum with names of scalars replaced, too, by what they stand for."""
        if not any(factor in self.values for term in total.terms for factor in term.factors):
            return total
        expansion = Sum()
        for term in total.terms:
            product = Sum((replace(term, factors=()),))
            for factor in term.factors:
                value = self.values.get(factor)
                product = product.times(_atomic_sum(factor) if value is None else self.terms(value))
            expansion = expansion.combined_with(product)
        return self.expanded(expansion)

    def value(self, name: cst.Name) -> cst.BaseExpression:
        """Return what a name stands for.

        Raises:
            OtherFormError: that is not known.
        """
        if name.value not in self.values:
            raise OtherFormError
        return self.values[name.value]

    def _operation(self, node: cst.BinaryOperation) -> Sum:
        if isinstance(node.operator, (cst.Add, cst.Subtract)):
            sign = 1 if isinstance(node.operator, cst.Add) else -1
            return self.terms(node.left).combined_with(self.terms(node.right), sign)
        if isinstance(node.operator, cst.Multiply):
            return self.terms(node.left).times(self.terms(node.right))
        if not _is_scalar(node, self.scalars):
            raise OtherFormError
        return _atomic_sum(render_code(parenthesized(node)))

    def is_multiple(self, total: Sum, block: str) -> bool:
        """Tell whether a sum is known to be a multiple of a block's size."""
        return all(
            any(self._is_multiple(factor, block) for factor in term.factors) for term in total.terms
        )

    def _is_multiple(self, factor: str, block: str) -> bool:
        if factor == block:
            return True
        loop, value = self.loops.get(factor), self.values.get(factor)
        parts = [value] if loop is None else [loop.start, loop.step]
        try:
            return all(p is not None and self.is_multiple(self.terms(p), block) for p in parts)
        except OtherFormError:
            return False


def _atomic_sum(text: str) -> Sum:
    if text == "0":
        return Sum()
    return Sum((Term(() if text == "1" else (text,)),))


def _range_sum(call: cst.Call) -> Sum:
    start, end = argument_of(call, 0, "start"), argument_of(call, 1, "end")
    if start is None or end is None or render_code(start) != "0":
        raise OtherFormError
    return Sum((Term(block=render_code(end)),))


def _broadcast_axis(node: cst.Subscript) -> int:
    place = tuple(render_code(element.slice) for element in node.slice)
    if place not in _AXES:
        raise OtherFormError
    return _AXES[place]


def _without_hints(call: cst.Call) -> cst.BaseExpression | None:
    """Return what a hint, or a conversion to wide integers, is about: descriptors need neither."""
    if called_name(call) in HINTS:
        return call.args[0].value
    return converted_value(call) if list(map(render_code, call.args)) == ["tl.int64"] else None


def _after_trips(loop: Loop, operand: cst.BaseExpression) -> str:
    """Return by how much a name grows in all that grows by `operand` a trip; empty if unknown."""
    factors, step = product_factors(operand), render_code(loop.step)
    if step != "1":
        if step not in factors:
            return ""
        factors.remove(step)
    start = render_code(parenthesized(loop.start))
    passed = loop.name if start == "0" else f"({loop.name} - {start})"
    return " * ".join([passed, *factors])


def _is_scalar(node: cst.CSTNode, scalars: frozenset[str]) -> bool:
    plain = all(called_name(call) in _PLAIN for call in calls_within(node))
    return plain and names_within(node) <= {"tl", *_PLAIN, *scalars}


def _scalar_names(function: JitFunction) -> frozenset[str]:
    """Return names that never hold a block, whichever assignment was the last."""
    scalars = frozenset({*function.params, *assigned_names(*function.body)})
    while True:
        blocks = {n for s in walk_statements(function.body) for n in _given_blocks(s, scalars)}
        if not blocks:
            return scalars
        scalars -= blocks


def _given_blocks(statement: cst.BaseStatement, scalars: frozenset[str]) -> set[str]:
    """Return the names of `scalars` to which a statement may assign a block."""
    if isinstance(statement, cst.For):
        return (
            set()
            if _is_scalar(statement.iter, scalars)
            else names_within(statement.target) & scalars
        )
    if not isinstance(statement, cst.SimpleStatementLine):
        return set()
    own = set(assigned_names(statement)) & scalars
    values = [v for small in statement.body if (v := getattr(small, "value", None)) is not None]
    return set() if all(_is_scalar(value, scalars) for value in values) else own


def tile_accesses(function: JitFunction) -> Iterator[tuple[cst.Call, Scope]]:
    """Yield the loads and stores of a function, each with what names stand for there.

    Those in conditions and in branches of ``else`` are left out.
    """
    yield from _accesses_in(function.body, Scope(function, _scalar_names(function)))


def _accesses_in(body: Body, scope: Scope) -> Iterator[tuple[cst.Call, Scope]]:
    for statement in body:
        if isinstance(statement, cst.SimpleStatementLine):
            for call in calls_within(statement, "tl.load", "tl.store"):
                yield call, scope
            scope = scope.after(statement)
        else:
            yield from _accesses_in(statements_of(statement), scope.within(statement))
            scope = scope.without(assigned_names(statement))


@dataclass(frozen=True)
class Axis:
    """One axis of a tile in memory.

    Attributes:
        start: the index of its first element.
        block: how many elements it has.
        stride: between them.
    """

    start: Sum
    block: str
    stride: Sum

    @property
    def offsets(self) -> Sum:
        """The indices of its elements."""
        return self.start.combined_with(Sum((Term(block=self.block),)))


@dataclass(frozen=True)
class Place:
    """A tile in memory.

    Attributes:
        base: the parameter that points to the tensor.
        axes: both of them.
    """

    base: str
    axes: tuple[Axis, Axis]


def tile_place(pointer: cst.BaseExpression, scope: Scope) -> Place:
    """Return the place that the pointers of a tile lead to.

    Raises:
        OtherFormError: it has other than two axes, or is of another form.
    """
    terms = scope.terms(pointer).terms
    params = set(scope.function.params)
    blocks = [t for t in terms if t.block]
    bases = [t for t in terms if not t.block and len(t.factors) == 1 and {*t.factors} <= params]
    ranges = {t.axis: t for t in blocks}
    if len(bases) != 1 or len(blocks) != len(ranges) or set(ranges) != {0, 1}:
        raise OtherFormError
    if any(term.sign < 0 for term in (*bases, *blocks)):
        raise OtherFormError
    starts: dict[int, Sum] = {0: Sum(), 1: Sum()}
    for term in terms:
        if term.block or term is bases[0]:
            continue
        axis, start = _stride_share(term, (ranges[0].factors, ranges[1].factors))
        starts[axis] = starts[axis].combined_with(Sum((replace(start, axis=None),)))
    rows, columns = (
        Axis(starts[axis], ranges[axis].block, Sum((Term(ranges[axis].factors),)))
        for axis in (0, 1)
    )
    return Place(bases[0].factors[0], (rows, columns))


def _stride_share(term: Term, strides: tuple[tuple[str, ...], tuple[str, ...]]) -> tuple[int, Term]:
    """Return the axis along which a term moves the tile, and by how many elements."""
    # A stride of 1 divides everything: the longer one first.
    order = sorted((0, 1), key=lambda axis: -len(strides[axis]))
    for axis in order if term.axis is None else [term.axis]:
        moved = term.over(strides[axis])
        if moved is not None:
            return axis, moved
    raise OtherFormError


def masked_sizes(mask: cst.BaseExpression, place: Place, scope: Scope) -> dict[int, str]:
    """Return the sizes that a mask compares a tile's indices with, by axis.

    Raises:
        OtherFormError: the mask does something else.
    """
    sizes: dict[int, str] = {}
    for axis, size in _bounded_axes(mask, place, scope, None):
        if sizes.setdefault(axis, size) != size:
            raise OtherFormError
    return sizes


def _bounded_axes(
    mask: cst.BaseExpression, place: Place, scope: Scope, axis: int | None
) -> Iterator[tuple[int, str]]:
    if isinstance(mask, cst.Name):
        yield from _bounded_axes(scope.value(mask), place, scope, axis)
    elif is_operation(mask, cst.BitAnd):
        yield from _bounded_axes(mask.left, place, scope, axis)
        yield from _bounded_axes(mask.right, place, scope, axis)
    elif isinstance(mask, cst.Subscript) and axis is None:
        yield from _bounded_axes(mask.value, place, scope, _broadcast_axis(mask))
    else:
        yield _bound_of_comparison(mask, place, scope, axis)


def _bound_of_comparison(
    mask: cst.BaseExpression, place: Place, scope: Scope, axis: int | None
) -> tuple[int, str]:
    """Read ``offsets < size``: what offsets lack of the tile's indices, the size lacks as well."""
    if (sides := compared_sides(mask, "<")) is None:
        raise OtherFormError
    index, bound = map(scope.terms, sides)
    along = {term.axis for term in index.terms if term.block} if axis is None else {axis}
    if len(along) != 1 or (only := along.pop()) is None:
        raise OtherFormError
    size = scope.expanded(
        bound.combined_with(index, -1).combined_with(place.axes[only].offsets)
    ).code
    used = names_within(parse_expression(size))
    function = scope.function
    if not used <= set(function.params) or any(map(function.reassigned, used)):
        raise OtherFormError
    return only, size
