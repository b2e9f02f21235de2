"""Sums of weights that a softmax gives, as sums that a running maximum rescales.

Notation
    m, s      running maximum of t, and sum of exp(t - m), of what was read so far
    r, e      what is the same for a whole row, and what differs among its elements

::

    sum exp(t - r) e = exp(m - r) a        a' = a exp(m - m') + sum exp(t - m') e

A divergence of rows of logits, or an entropy, multiplies such weights by sums of both:
``p (log p - log q) = p (t - q_t) - p (lse_t - lse_q)``. Multiplied out, each term is a factor of
the row times a sum over elements, so a loop that knows m gets all of them.

Other factors are multiplied out as well, as in ``sum (r - x) = n r - sum x``. With r a rounded
number, the former sum has an error of eps n |r| already, where eps is half a unit in the last
place, and the latter's is of that order. Products of two such differences stay, since
``(x - r)^2`` loses less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import (
    assignments_in,
    straight_values,
    written_out,
)
from solkit.tuner.proposers.rewriter._carried import Carried, CarriedKind, carried_by
from solkit.tuner.proposers.rewriter._nodes import (
    EXPONENTIALS,
    Body,
    Loop,
    Swap,
    Values,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    child_nodes,
    free_name,
    names_within,
    parenthesized,
    parse_expression,
    parse_statement,
    plain_code,
    render_code,
    replace_each,
    single_assignment,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import (
    both_orders,
    call_args,
    conjuncts,
    is_minus_infinity,
    is_operation,
    is_zero,
)
from solkit.tuner.proposers.rewriter._row_fills import Fill, RowFills
from solkit.tuner.proposers.rewriter._values import BlockedLoop, all_names

_MOST_TERMS = 12
_SCALAR_AXES = ("0", "None")


class OtherSumError(Exception):
    """An expression is no sum of products of factors of the row and of elements."""


@dataclass(frozen=True)
class Weights:
    """A sum of exponentials that a loop rescales by a running maximum.

    Attributes:
        name: of the sum.
        peak: of the maximum.
        function: the exponential.
        power: elements' part of the exponent, as `power_code` has it.
        code: a block's exponentials relative to the new maximum, as code in the trip.
        conditions: elements that the sum leaves out, as plain code.
        loads: calls that the exponent is made of.
    """

    name: str
    peak: str
    function: str
    power: str
    code: str
    conditions: tuple[str, ...]
    loads: Sequence[cst.Call]

    def leaves_out(self, condition: str) -> bool:
        """Tell whether elements for which a condition is false add nothing to the sum."""
        masks = [argument_of(load, 1, "mask") for load in self.loads if _is_lowest(load)]
        parts = [part for mask in masks if mask is not None for part in conjuncts(mask)]
        return condition in {*self.conditions, *map(plain_code, parts)}


def _is_lowest(load: cst.Call) -> bool:
    other = argument_of(load, 2, "other")
    return other is not None and is_minus_infinity(other)


@dataclass(frozen=True)
class Term:
    """A product, to be summed over a row's elements.

    Attributes:
        sign: 1 or -1.
        row: code of the factors that are the same for a row.
        elements: code of the others.
        conditions: code of what an element must meet, or it counts as 0.
        weights: the sum whose exponentials are a factor.
    """

    sign: int = 1
    row: tuple[str, ...] = ()
    elements: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    weights: Weights | None = None

    def times(self, other: Term) -> Term:
        """Return the product with another term."""
        if self.weights is not None and other.weights is not None:
            raise OtherSumError
        return Term(
            self.sign * other.sign,
            (*self.row, *other.row),
            (*self.elements, *other.elements),
            tuple(dict.fromkeys((*self.conditions, *other.conditions))),
            self.weights or other.weights,
        )


def terms_of(
    node: cst.BaseExpression,
    results: set[str],
    index: str,
    weights: Sequence[Weights],
    loads: Sequence[cst.Call],
) -> list[Term]:
    """Return the terms whose sum an expression is.

    Args:
        node: an element of a sum, without names of the loop's own but its variable.
        results: names that are known only behind the first loop.
        index: the loop's variable.
        weights: of the first loop.
        loads: of the first loop. One takes the place of a load of the same elements where those
            that the mask leaves out do not count.

    Raises:
        OtherSumError: it is no such sum.
    """
    if called_name(node) == "tl.where":
        condition, value, fill = call_args(node)[:3]
        if not is_zero(fill) or names_within(condition) & results:
            raise OtherSumError
        value = _with_loads(value, {plain_code(part) for part in conjuncts(condition)}, loads)
        inside = Term(conditions=(render_code(condition),))
        return [inside.times(t) for t in terms_of(value, results, index, weights, loads)]
    if not names_within(node) & results:
        return [Term(elements=(_factor(node),))]
    if not _is_element(node, index):
        return [Term(row=(_factor(node),))]
    if called_name(node) in EXPONENTIALS:
        return [_weight(node, results, index, weights)]
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        return _negative(terms_of(node.expression, results, index, weights, loads))
    if not isinstance(node, cst.BinaryOperation):
        raise OtherSumError
    if isinstance(node.operator, cst.Divide) and not _is_element(node.right, index):
        inverse = parse_expression(f"1.0 / {_factor(node.right)}")
        node = node.with_changes(operator=cst.Multiply(), right=parenthesized(inverse))
    sides = (node.left, node.right)
    one, two = (terms_of(side, results, index, weights, loads) for side in sides)
    return _combined(node.operator, one, two)


def _combined(operator: cst.BaseBinaryOp, one: Sequence[Term], two: Sequence[Term]) -> list[Term]:
    """Return the terms of a product, sum or difference of sums of terms."""
    if isinstance(operator, cst.Multiply) and min(len(one), len(two)) == 1:
        terms = [a.times(b) for a in one for b in two]
    elif isinstance(operator, (cst.Add, cst.Subtract)):
        terms = [*one, *(_negative(two) if isinstance(operator, cst.Subtract) else two)]
    else:
        raise OtherSumError
    if len(terms) > _MOST_TERMS:
        raise OtherSumError
    return terms


def _negative(terms: Iterable[Term]) -> list[Term]:
    return [replace(term, sign=-term.sign) for term in terms]


def _factor(node: cst.BaseExpression) -> str:
    return render_code(parenthesized(node))


def _is_element(node: cst.CSTNode, index: str) -> bool:
    return index in names_within(node) or bool(calls_within(node, "tl.load", "tl.arange"))


def _weight(
    node: cst.BaseExpression, results: set[str], index: str, weights: Sequence[Weights]
) -> Term:
    """Return ``exp(t - r)`` as weights relative to the maximum of t, times a factor of the row."""
    addends = addends_of(call_args(node)[0])
    own = [(sign, part) for sign, part in addends if not names_within(part) & results]
    row = [(sign, part) for sign, part in addends if names_within(part) & results]
    if not any(_is_element(part, index) for _, part in row):
        for weight in weights:
            if weight.function == called_name(node) and weight.power == power_code(own):
                power = "".join(f" {'+' if s > 0 else '-'} {_factor(part)}" for s, part in row)
                factor = f"{weight.function}({weight.peak}{power})"
                is_one = power == f" - {weight.peak}"
                return Term(row=() if is_one else (factor,), weights=weight)
    raise OtherSumError


def addends_of(node: cst.BaseExpression, sign: int = 1) -> list[tuple[int, cst.BaseExpression]]:
    """Return the parts of a sum with their signs."""
    if is_operation(node, cst.Add, cst.Subtract):
        other = -sign if isinstance(node.operator, cst.Subtract) else sign
        return [*addends_of(node.left, sign), *addends_of(node.right, other)]
    return [(sign, node)]


def power_code(addends: Iterable[tuple[int, cst.BaseExpression]]) -> str:
    """Return code of a sum that is the same for the same parts in any order."""
    return " ".join(
        sorted(f"{'+' if sign > 0 else '-'}{plain_code(part)}" for sign, part in addends)
    )


def _with_loads(
    node: cst.BaseExpression, conditions: set[str], loads: Sequence[cst.Call]
) -> cst.BaseExpression:
    """Return an expression with other loads of the same elements, where only those count."""
    by_code = {_load_code(load): load for load in loads}
    pairs = []
    for call in calls_within(node, "tl.load"):
        mask, other = argument_of(call, 1, "mask"), by_code.get(_load_code(call))
        if mask is not None and other is not None:
            parts = {plain_code(part) for part in conjuncts(mask)}
            pairs += [(call, other)] if parts <= conditions else []
    return replace_each(node, pairs)


def _load_code(call: cst.Call) -> str:
    """Return code of a load without what it gives for elements that its mask leaves out."""
    rest = [arg for arg in call.args if arg.keyword is None or arg.keyword.value != "other"]
    return plain_code(call.with_changes(args=rest[:2] if len(rest) > 2 else rest))


# ------------------------------------------------------------------------------- groups


def grouped_terms(
    terms: Sequence[Term], rename: Callable[[str], str]
) -> list[tuple[Term, str, str]]:
    """Return sums over elements, each as a term that has its conditions and weights, with code.

    Args:
        terms: of one sum.
        rename: returns an element's code over the names of a trip.

    Returns:
        For each sum, its term, the code of an element without weights, empty for 1, and the code of
        the row's factor.
    """
    by_row: dict[tuple[tuple[str, ...], tuple[str, ...], str], list[Term]] = {}
    for term in terms:
        by_row.setdefault((_ordered(term.row), term.conditions, _name(term)), []).append(term)
    by_element: dict[tuple[str, tuple[str, ...], str], list[tuple[int, Term]]] = {}
    for same in by_row.values():
        first, sign = same[0], same[0].sign
        is_one = len(same) == 1 and len(first.elements) <= 1
        widened = rename if is_one else lambda code: _in_fp32(rename(code))
        parts = [(sign * term.sign, _product(map(widened, term.elements))) for term in same]
        code = "" if [part for _, part in parts] == ["1.0"] else _sum(parts)
        key = code, first.conditions, _name(first)
        by_element.setdefault(key, []).append((sign, first))
    return [(signed[0][1], code, _row_code(signed)) for (code, _, _), signed in by_element.items()]


def _in_fp32(code: str) -> str:
    """Return code of an element in fp32.

    It may be of 16 bits, and the row's number that made a sum or a product of it fp32 left these.
    """
    return code if code.endswith(".to(tl.float32)") else f"({code}).to(tl.float32)"


def _name(term: Term) -> str:
    return "" if term.weights is None else term.weights.name


def _ordered(factors: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(factors))


def _row_code(signed: Sequence[tuple[int, Term]]) -> str:
    """Return the sum of the factors of rows; what all have in common stands once."""
    counts = [Counter(term.row) for _, term in signed]
    common = counts[0]
    for count in counts[1:]:
        common = common & count
    rest = _sum(
        [
            (sign, _product((count - common).elements()))
            for (sign, _), count in zip(signed, counts, strict=True)
        ]
    )
    factors = [*common.elements(), *([] if rest == "1.0" else [f"({rest})"])]
    return _product(factors)


def _product(factors: Iterable[str]) -> str:
    return " * ".join(factors) or "1.0"


def _sum(parts: Sequence[tuple[int, str]]) -> str:
    text = "".join(f" {'+' if sign > 0 else '-'} {code}" for sign, code in parts)
    return text.removeprefix(" + ") if parts[0][0] > 0 else f"-{text.removeprefix(' - ')}"


def renamed(code: str, names: Mapping[str, str]) -> str:
    """Return code in which what names stand for, as plain code, is the names."""
    node = parse_expression(code)
    pending, pairs = list[cst.CSTNode]([node]), list[Swap]()
    while pending:
        part = pending.pop()
        name = names.get(plain_code(part)) if isinstance(part, cst.BaseExpression) else None
        if name is not None and isinstance(part, (cst.Call, cst.BinaryOperation, cst.Comparison)):
            pairs.append((part, cst.Name(name)))
        else:
            pending += child_nodes(part)
    return render_code(replace_each(node, pairs))


# ------------------------------------------------------------------------------- loops


@dataclass(frozen=True)
class WeightedSums:
    """A loop that also has the sums of the loop behind it.

    Attributes:
        starts: assignments ahead of the loop.
        loop: the loop.
        totals: assignments of the second loop's sums, where that stood.
        blocks: names of sums that were blocks, each added up later; they are numbers now.
        scaled: names of the first loop's sums that are used.
    """

    starts: list[cst.BaseStatement]
    loop: cst.BaseStatement
    totals: list[cst.BaseStatement]
    blocks: tuple[str, ...]
    scaled: tuple[str, ...]


def weighted_sums(
    row: BlockedLoop, second: Loop, behind: Body, taken: set[str]
) -> WeightedSums | None:
    """Return the first of two loops over the same blocks with the sums of the second.

    Args:
        row: the first loop. It may have maxima, and sums that these rescale.
        second: only adds up floats, and writes nothing.
        behind: statements that follow from the first loop's results, ahead of the second.
        taken: names in the function, to which new ones are added.
    """
    first = row.loop
    carried, sums = carried_by(first.body, first.name), carried_by(second.body, second.name)
    if not carried or not sums or any(u.kind is not CarriedKind.SUM for u in sums.values()):
        return None
    later = straight_values(behind)
    results, scales = {*carried, *later}, list(_scales_of(first, carried))
    loads = [c for u in carried.values() if u.element for c in calls_within(u.element, "tl.load")]
    writer = _Writer(first, scales, taken)
    own, totals, blocks = {second.name: cst.Name(first.name)}, [], []
    for name, update in sums.items():
        if update.element is None:
            return None
        element = substitute_names(update.element, own)
        if called_name(element) == "tl.sum":
            if not is_over_all(element):
                return None
            element = call_args(element)[0]
        else:
            blocks.append(name)
        if update.subtracts:
            element = parse_expression(f"-({render_code(element)})")
        element = _where_it_counts(element, row)
        try:
            weights = [scale.weights for scale in scales]
            terms = terms_of(element, results, first.name, weights, loads)
            if any(not _may_leave_loop(term, terms, row, carried, later) for term in terms):
                return None
            parts = [
                f"{factor} * {_length(term, code, row) or writer.sum_of(name, term, code)}"
                for term, code, factor in grouped_terms(terms, writer.rename)
            ]
        except OtherSumError:
            return None
        is_empty = f"{render_code(parenthesized(first.stop))} > 0"
        totals.append(parse_statement(f"{name} = tl.where({is_empty}, {' + '.join(parts)}, 0.0)"))
    starts = [parse_statement(f"{name} = 0.0") for name in writer.added]
    scaled = tuple(scale.weights.name for scale in scales)
    return WeightedSums(starts, writer.loop(), totals, tuple(blocks), scaled)


def _where_it_counts(element: cst.BaseExpression, row: BlockedLoop) -> cst.BaseExpression:
    """Return an element with one mask for the row's end, where it is 0 behind that."""
    choices = [c for c in calls_within(element, "tl.where") if row.is_whole(call_args(c)[0])]
    masks = [argument_of(load, 1, "mask") for load in calls_within(element, "tl.load")]
    masks += [call_args(choice)[0] for choice in choices]
    whole = {plain_code(mask) for mask in masks if mask is not None and row.is_whole(mask)}
    fills = RowFills(lambda node: plain_code(node) in whole)
    if fills.fill(element) is not Fill.ZERO or (called_name(element) == "tl.where" and not choices):
        return element
    while choices:  # the values of those within others have others within
        value = parenthesized(call_args(choices[0])[1])
        element = value if choices[0] is element else replace_each(element, [(choices[0], value)])
        choices = [c for c in calls_within(element, "tl.where") if row.is_whole(call_args(c)[0])]
    return parse_expression(f"tl.where({min(whole)}, {render_code(element)}, 0.0)")


def _may_leave_loop(
    term: Term,
    terms: Sequence[Term],
    row: BlockedLoop,
    carried: Mapping[str, Carried],
    later: Values,
) -> bool:
    """Tell whether a factor of the row may be taken out of the sum of a term.

    A number of the row times no elements is 0, also where it is infinite: so all elements count, of
    which there are some. In a difference it is rounded, as what follows from a sum is.
    """
    if term.weights is not None or not term.row:
        return True
    if not all(row.is_whole(parse_expression(code)) for code in term.conditions):
        return False
    names = {n for code in term.row for n in all_names(parse_expression(code), later)}
    own = [carried[name] for name in names & carried.keys()]
    return len(terms) == 1 or any(not update.kind.is_extremum for update in own)


def _length(term: Term, code: str, row: BlockedLoop) -> str:
    """Return the code of a row's length, if a term sums up nothing else.

    Raises:
        OtherSumError: a term counts elements that may be fewer, or more.
    """
    if term.weights is not None or code:
        return ""
    if not term.conditions:
        raise OtherSumError
    return render_code(parenthesized(row.bound))


@dataclass(frozen=True)
class _Scale:
    """A sum that a trip rescales.

    Attributes:
        weights: its exponentials.
        place: of its statement among the trip's.
        factor: what it is rescaled by there, as code.
    """

    weights: Weights
    place: int
    factor: str


def _scales_of(loop: Loop, carried: Mapping[str, Carried]) -> Iterator[_Scale]:
    """Yield the sums of exponentials that are written as ``s = s * factor + tl.sum(weights)``."""
    values = straight_values(loop.body)
    for place, statement in enumerate(loop.body):
        binding = single_assignment(statement)
        update = None if binding is None else carried.get(binding.target)
        if binding is None or update is None or update.kind is not CarriedKind.RESCALED:
            continue
        parts = _scale_and_total(binding.value, update.name)
        element = update.element
        if parts is None or element is None or called_name(element) != "tl.sum":
            continue
        if not is_over_all(element):
            continue
        factor, total = parts
        block = call_args(total)[0]
        inner, conditions = _without_choice(call_args(element)[0])
        block, _ = _without_choice(values.get(render_code(block), block))
        written = values.get(render_code(block), block)
        if called_name(inner) not in EXPONENTIALS or called_name(written) != called_name(inner):
            continue
        addends = addends_of(call_args(inner)[0])
        own = [(sign, part) for sign, part in addends if update.leader not in names_within(part)]
        loads = [call for _, part in own for call in calls_within(part, "tl.load")]
        weights = Weights(
            *(update.name, update.leader, called_name(inner), power_code(own)),
            *(f"({render_code(block)})", conditions, loads),
        )
        yield _Scale(weights, place, f"({render_code(factor)})")


def _scale_and_total(
    value: cst.BaseExpression, name: str
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return ``factor`` and ``tl.sum(block)`` of ``name * factor + tl.sum(block)``."""
    for scaled, total in both_orders(value, cst.Add):
        for own, factor in both_orders(scaled, cst.Multiply):
            if called_name(total) == "tl.sum" and render_code(own) == name:
                return factor, total
    return None


def is_over_all(call: cst.BaseExpression) -> bool:
    """Tell whether a reduction of a block with one axis is written."""
    axis = argument_of(call, 1, "axis")
    return axis is None or render_code(axis) in _SCALAR_AXES


def _without_choice(node: cst.BaseExpression) -> tuple[cst.BaseExpression, tuple[str, ...]]:
    """Return ``x`` of ``where(c, x, 0)``, and the conditions as plain code."""
    if called_name(node) == "tl.where":
        condition, value, fill = call_args(node)[:3]
        if is_zero(fill):
            return value, tuple(plain_code(part) for part in conjuncts(condition))
    return node, ()


class _Writer:
    """Adds sums to a loop that rescales others.

    Attributes:
        added: names of the sums.
    """

    def __init__(self, loop: Loop, scales: Sequence[_Scale], taken: set[str]) -> None:
        self.added: list[str] = []
        self._loop, self._taken = loop, taken
        self._scales = {scale.weights.name: scale for scale in scales}
        self._statements: dict[int, list[cst.BaseStatement]] = {}
        first = min((scale.place for scale in scales), default=len(loop.body))
        counts = Counter(assigned_names(*loop.body))
        flat = written_out(b for b in assignments_in(loop.body[:first]) if counts[b.target] == 1)
        self._names = {plain_code(value): name for name, value in reversed(flat.items())}

    def rename(self, code: str) -> str:
        """Return code over names of the trip."""
        return renamed(code, self._names)

    def sum_of(self, name: str, term: Term, code: str) -> str:
        """Return the name of a sum over elements, which the loop gets if it has none.

        Args:
            name: of the second loop's sum that it is part of.
            term: has its conditions and weights.
            code: of an element without weights; empty for 1.
        """
        weights = term.weights
        outside = weights is not None and all(map(weights.leaves_out, _parts(term.conditions)))
        if weights is not None and outside and not code:
            return weights.name
        total = free_name(f"{name}_part", self._taken)
        self.added.append(total)
        place, line = len(self._loop.body), f"{total} = {total}"
        element = code or "1.0"
        if weights is not None:
            scale = self._scales[weights.name]
            place, line = scale.place, f"{line} * {scale.factor}"
            element = f"{weights.code} * ({code})" if code else weights.code
        else:
            element = f"({element}).to(tl.float32)"
        for condition in term.conditions:
            element = f"tl.where({self.rename(condition)}, {element}, 0.0)"
        added = parse_statement(f"{line} + tl.sum({element}, axis=0)")
        self._statements.setdefault(place, []).append(added)
        return total

    def loop(self) -> cst.BaseStatement:
        """Return the loop with the sums."""
        body = [
            part
            for place, statement in enumerate([*self._loop.body, None])
            for part in (*self._statements.get(place, ()), statement)
            if part is not None
        ]
        return with_body(self._loop.node, body)


def _parts(conditions: Iterable[str]) -> list[str]:
    return [plain_code(p) for code in conditions for p in conjuncts(parse_expression(code))]
