"""Largest offsets of stores from their pointers, and whether trips of a loop store apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import single_values, values_of
from solkit.tuner.proposers.rewriter._edit import program_axis
from solkit.tuner.proposers.rewriter._memory import WRITES, may_meet
from solkit.tuner.proposers.rewriter._nodes import (
    HINTS,
    Loop,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    integer_literal,
    names_read_first,
    names_within,
    parenthesized,
    parse_expression,
    plain_code,
    range_loop,
    render_code,
    substitute_names,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._operations import converted_value, is_operation
from solkit.tuner.proposers.rewriter._parse import Launch, in_launcher
from solkit.tuner.proposers.rewriter._values import all_names, argument_bases


class OffsetError(Exception):
    """An offset, or what it depends on, is of another form."""


class OffsetBound:
    """Largest offsets of a launch's stores, as code of its launcher.

    Args:
        launch: in whose function the stores are.
        arguments: of the launch, without names of its loop.
        varying: the loop's variable.

    Attributes:
        values: of names that are assigned once.
        limits: what the latest store's mask says code to be less than.
        sizes: numbers of which the bound holds only if they are not negative.
    """

    def __init__(
        self, launch: Launch, arguments: Mapping[str, cst.BaseExpression], varying: str
    ) -> None:
        self._launch, self._arguments, self._varying = launch, arguments, varying
        self.values = single_values(launch.function.body, launch.function.params)
        loops = map(range_loop, walk_statements(launch.function.body))
        named = [(loop.name, loop) for loop in loops if loop is not None]
        stops = {(name, plain_code(loop.stop)) for name, loop in named}
        counts = Counter(name for name, _ in stops)
        self._loops = {name: loop for name, loop in named if counts[name] == 1}
        self.limits: dict[str, cst.BaseExpression] = {}
        self.sizes: list[str] = []

    def of_store(self, call: cst.Call, param: str) -> str:
        """Return the largest offset of a store from a pointer.

        Raises:
            OffsetError: it is of another form.
        """
        mask = argument_of(call, 2, "mask")
        self.limits = {} if mask is None else dict(self.limits_of(mask))
        terms = self._terms(call.args[0].value)
        offsets = [term for term in terms if render_code(term) != param]
        if len(offsets) != len(terms) - 1:
            raise OffsetError
        return " + ".join(map(self.largest, offsets)) or "0"

    def _terms(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """Return the terms of a sum, and of names of sums."""
        if plain_code(node) in self.limits:
            return [node]
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            return [*self._terms(node.left), *self._terms(node.right)]
        if isinstance(node, cst.Subscript):
            return self._terms(node.value)
        value = self.values.get(node.value) if isinstance(node, cst.Name) else None
        return [node] if value is None else self._terms(value)

    def limits_of(self, mask: cst.BaseExpression) -> Sequence[tuple[str, cst.BaseExpression]]:
        """Return what a mask says to be less than something else."""
        if isinstance(mask, cst.Name) and mask.value in self.values:
            return self.limits_of(self.values[mask.value])
        if isinstance(mask, cst.Subscript):
            return self.limits_of(mask.value)
        if isinstance(mask, cst.BinaryOperation) and isinstance(mask.operator, cst.BitAnd):
            return [*self.limits_of(mask.left), *self.limits_of(mask.right)]
        if isinstance(mask, cst.Comparison) and len(mask.comparisons) == 1:
            target = mask.comparisons[0]
            if isinstance(target.operator, cst.LessThan):
                node = mask.left.value if isinstance(mask.left, cst.Subscript) else mask.left
                return [(plain_code(node), target.comparator)]
        return []

    def largest(self, node: cst.BaseExpression) -> str:
        """Return the largest value of an expression of numbers that are not negative."""
        limit = self.limits.get(plain_code(node))
        if limit is not None:
            limits, self.limits = self.limits, {}
            self.largest(node)  # it is not negative, or this raises
            self.limits = limits
            return f"({self.size_of(limit)} - 1)"
        if isinstance(node, cst.Integer):
            return render_code(node)
        if isinstance(node, cst.Subscript):
            return self.largest(node.value)
        if isinstance(node, cst.BinaryOperation):
            return self._largest_of_operation(node)
        if isinstance(node, cst.Name):
            return self._largest_of_name(node.value)
        name = called_name(node)
        call = cst.ensure_type(node, cst.Call) if isinstance(node, cst.Call) else None
        if call is None:
            raise OffsetError
        if name == "tl.program_id" and (axis := program_axis(call)) is not None:
            return f"({render_code(parenthesized((self._launch.axes or ())[axis]))} - 1)"
        if name == "tl.arange" and (end := argument_of(call, 1, "end")) is not None:
            return f"({self.size_of(end)} - 1)"
        if name in HINTS:
            return self.largest(call.args[0].value)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "to":
            return self.largest(call.func.value)
        raise OffsetError

    def _largest_of_name(self, name: str) -> str:
        if name in self._loops:
            loop = self._loops[name]
            self.largest(loop.start)  # neither is negative, or this raises
            if called_name(loop.step) != "tl.num_programs":
                self.largest(loop.step)
            return f"({self.size_of(loop.stop)} - 1)"
        if name in self.values:
            return self.largest(self.values[name])
        return self.size_of(cst.Name(name))

    def _largest_of_operation(self, node: cst.BinaryOperation) -> str:
        if isinstance(node.operator, (cst.Add, cst.Multiply)):
            sign = "+" if isinstance(node.operator, cst.Add) else "*"
            return f"({self.largest(node.left)} {sign} {self.largest(node.right)})"
        if isinstance(node.operator, cst.FloorDivide):
            return f"({self.largest(node.left)} // {self.size_of(node.right)})"
        if isinstance(node.operator, cst.Modulo):
            self.largest(node.left)  # of what is negative, so is the remainder
            return f"({self.size_of(node.right)} - 1)"
        raise OffsetError

    def size_of(self, node: cst.BaseExpression) -> str:
        """Return a number of parameters and constants, as the launcher has it."""
        if isinstance(node, cst.Name) and node.value in self.values:
            return self.size_of(self.values[node.value])
        if names_within(node) & set(assigned_names(self._launch.function.node)):
            raise OffsetError
        whole = in_launcher(node, self._launch)
        own = {n: v for n, v in self._arguments.items() if n in names_within(node)}
        if whole is None or self._varying in names_within(*own.values()):
            raise OffsetError
        code = render_code(parenthesized(substitute_names(node, own)))
        if integer_literal(node) is None and code not in self.sizes:
            self.sizes.append(code)
        return code


# ------------------------------------------------------------------------------- trips

_NUMERAL = re.compile(r"[\d\s()+*/<-]+")
_Product = tuple[cst.BaseExpression, ...]
"""Factors of a term of an address."""


def conditions_of_trips_apart(
    launch: Launch, loop: Loop, steps: Mapping[str, cst.BaseExpression]
) -> list[str]:
    """Return conditions of the launcher under which no two trips store to one place.

    The distance of two trips' blocks is more than a block is long. Or it is so along one axis of
    the block, and all trips together are shorter than the distance along the other axis.

    Args:
        launch: in whose function the loop is.
        loop: one of the function's own statements.
        steps: what each trip adds to names that grow by the same.

    Raises:
        OffsetError: addresses are of another form, or blocks meet.
    """
    conditions, seen = list[str](), list[tuple[Collection[str], str]]()
    for call in calls_within(loop.node, *WRITES):
        bases, place = argument_bases(launch, call), plain_code(call.args[0].value)
        if any(may_meet(bases, tensors) and place != address for tensors, address in seen):
            raise OffsetError  # a later trip's first store may be where an earlier one's second is
        seen.append((bases, place))
        conditions += _Trips(launch, loop, steps).conditions(call)
    return list(dict.fromkeys(conditions))


class _Trips:
    """Reads the addresses of a loop's stores: see `conditions_of_trips_apart`."""

    def __init__(self, launch: Launch, loop: Loop, steps: Mapping[str, cst.BaseExpression]) -> None:
        self._bound = OffsetBound(launch, launch.arguments, "")
        self._body, self._loop = launch.function.body, loop
        own = single_values(loop.body)  # names that other loops may give other values
        first = names_read_first(loop.body)
        self._bound.values |= {name: own[name] for name in own if name not in first}
        self._steps = {loop.name: loop.step, **steps}
        inner = map(range_loop, walk_statements(loop.body))
        self._varying = {loop.name for loop in inner if loop is not None}

    def conditions(self, call: cst.Call) -> list[str]:
        """Return the conditions of a store.

        Raises:
            OffsetError: its address is of another form, or its blocks meet.
        """
        bound, mask = self._bound, argument_of(call, 2, "mask")
        limits = {} if mask is None else dict(bound.limits_of(mask))
        bound.limits = {
            code: limit
            for code, limit in limits.items()
            if not self._is_moving(parse_expression(code))
        }
        products = self._products(call.args[0].value)
        moving = [p for p in products if any(map(self._is_moving, p))]
        within = [p for p in products if p not in moving and any(map(self._is_varying, p))]
        for name in self._steps.keys() - {self._loop.name}:
            for product in [p for p in moving if any(_is_name(f, name) for f in p)]:
                rest = [f for f in product if not _is_name(f, name)]
                for start in self._starts(name):
                    within += [(*rest, *start)] if any(map(self._is_varying, start)) else []
        distance = [self._distance(p) for p in moving]
        if not distance:
            raise OffsetError
        choices = [self._less(within, distance)]
        lasting = {code: limit for code, limit in limits.items() if code not in bound.limits}
        for outer in sorted({self._coefficient(p) for p in within} - {"1"}):
            inner = [p for p in within if self._coefficient(p) != outer]
            for whole in self._extents([*moving, *inner], moving, lasting):
                choices.append(_both(self._less(inner, distance), f"{whole} < {outer}"))
        sizes = [f"{size} >= 0" for size in bound.sizes if not _NUMERAL.fullmatch(size)]
        if "True" in choices:
            return sizes if bound.limits else []
        kept = [c for c in choices if c != "False"]
        if not kept:
            raise OffsetError
        code = kept[0] if len(kept) == 1 else f"({' or '.join(f'({c})' for c in kept)})"
        return [code, *sizes]

    def _is_moving(self, node: cst.BaseExpression) -> bool:
        return bool(all_names(node, self._bound.values) & set(self._steps))

    def _is_varying(self, node: cst.BaseExpression) -> bool:
        values = self._bound.values
        names = all_names(node, values)
        parts = [node, *(values[name] for name in names if name in values)]
        return bool(names & self._varying) or any(calls_within(p, "tl.arange") for p in parts)

    def _products(self, node: cst.BaseExpression) -> list[_Product]:
        """Return the terms of a sum, multiplied out."""
        values = self._bound.values
        if plain_code(node) in self._bound.limits:
            self._require_known(node)
            return [(node,)]
        if isinstance(node, cst.Subscript):
            return self._products(node.value)
        if isinstance(node, cst.Name) and node.value in values:
            return self._products(values[node.value])
        if is_operation(node, cst.Add):
            return [*self._products(node.left), *self._products(node.right)]
        if is_operation(node, cst.Multiply):
            rights = self._products(node.right)
            return [(*a, *b) for a in self._products(node.left) for b in rights]
        if (inner := converted_value(node)) is not None:
            return self._products(inner)
        if isinstance(node, cst.Call) and called_name(node) in HINTS:
            return self._products(node.args[0].value)
        self._require_known(node)
        if is_operation(node, cst.Subtract) or calls_within(node, "tl.load"):
            raise OffsetError
        return [(node,)]

    def _require_known(self, node: cst.BaseExpression) -> None:
        """Refuse what is neither the same in all trips nor follows from variables of loops."""
        values, assigned = self._bound.values, set(assigned_names(*self._body))
        names = {*values, *self._steps, *self._varying}
        if all_names(node, values) & assigned - names:
            raise OffsetError

    def _starts(self, name: str) -> list[_Product]:
        values = values_of(name, walk_statements(self._body))
        if len(values) != 2:
            raise OffsetError
        return self._products(values[0])

    def _distance(self, product: _Product) -> list[str]:
        """Return the factors of what a term grows by each trip."""
        names = [f.value for f in product if isinstance(f, cst.Name) and f.value in self._steps]
        rest = [f for f in product if not (isinstance(f, cst.Name) and f.value in self._steps)]
        if len(names) != 1 or any(map(self._is_moving, rest)):
            raise OffsetError
        step = [f for p in self._products(self._steps[names[0]]) for f in p]
        if len(self._products(self._steps[names[0]])) != 1:
            raise OffsetError
        return _factors(self._bound.size_of(f) for f in [*rest, *step])

    def _split(self, product: _Product) -> tuple[list[str], str]:
        """Return the factors of a term that are fixed, and the largest of what is not."""
        varying = [f for f in product if self._is_varying(f)]
        if len(varying) != 1:
            raise OffsetError
        rest = [self._bound.size_of(f) for f in product if f is not varying[0]]
        return _factors(rest), self._bound.largest(varying[0])

    def _coefficient(self, product: _Product) -> str:
        return " * ".join(self._split(product)[0]) or "1"

    def _less(self, within: Sequence[_Product], distance: Sequence[Sequence[str]]) -> str:
        """Return the condition that a block is shorter than the distance of trips."""
        parts = [self._split(product) for product in within]
        if len(parts) == len(distance) == 1:
            factors, extent = parts[0]
            if extent.endswith(" - 1)"):
                size = parse_expression(extent).with_changes(lpar=[], rpar=[])
                end = cst.ensure_type(size, cst.BinaryOperation).left
                if sorted([*factors, *_factors([render_code(end)])]) == sorted(distance[0]):
                    return _decided(f"0 < {' * '.join(factors) or '1'}")
        terms = [" * ".join([*factors, extent]) for factors, extent in parts]
        longest = " + ".join(" * ".join(d) or "1" for d in distance)
        numerals = [term for term in terms if _NUMERAL.fullmatch(term)]
        if _decided(f"{' + '.join(numerals) or '0'} < {longest}") == "False":
            return "False"
        return _decided(f"{' + '.join(terms) or '0'} < {longest}")

    def _extents(
        self,
        terms: Sequence[_Product],
        moving: Sequence[_Product],
        limits: Mapping[str, cst.BaseExpression],
    ) -> list[str]:
        """Return the largest values of some terms in all trips, as masks or the loop say."""
        own, largest = _codes(terms), list[str]()
        for code, limit in limits.items():
            products = self._products(parse_expression(code))
            self._require_not_negative(products)
            parts = [
                p for p in products if any(self._is_moving(f) or self._is_varying(f) for f in p)
            ]
            common = [f for f in moving[0] if not self._is_moving(f)]
            for by in ((), tuple(common)):
                if _codes((*p, *by) for p in parts) == own:
                    size = f"({self._bound.size_of(limit)} - 1)"
                    largest.append(" * ".join([*(self._bound.size_of(f) for f in by), size]))
        return list(dict.fromkeys(largest))

    def _require_not_negative(self, products: Sequence[_Product]) -> None:
        self._bound.largest(self._loop.start)
        for factor in (f for product in products for f in product):
            if not isinstance(factor, cst.Name) or factor.value not in self._steps:
                self._bound.largest(factor)
            elif factor.value != self._loop.name:
                for start in (f for product in self._starts(factor.value) for f in product):
                    self._bound.largest(start)


def _is_name(node: cst.BaseExpression, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def _codes(products: Iterable[_Product]) -> list[list[str]]:
    return sorted(sorted(map(plain_code, product)) for product in products)


def _factors(codes: Iterable[str]) -> list[str]:
    """Return code of factors, each in its plainest form, without those that are 1."""
    plain = [plain_code(parse_expression(code)) for code in codes]
    return [
        code if code.isidentifier() or code.isdigit() else f"({code})"
        for code in plain
        if code != "1"
    ]


def _decided(condition: str) -> str:
    """Return a condition of numbers alone as what it is."""
    return str(bool(eval(condition))) if _NUMERAL.fullmatch(condition) else condition


def _both(*conditions: str) -> str:
    parts = [_decided(condition) for condition in conditions]
    return "False" if "False" in parts else " and ".join(p for p in parts if p != "True") or "True"
