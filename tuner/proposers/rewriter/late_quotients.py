"""Sums that each trip divides are divided once, behind their loop.

An online softmax may keep its output normalised: ``acc = acc * (l / new * alpha) + p @ v / new``.
Then ``A = acc * l`` is a sum without divisions: ``A = A * alpha + p @ v``. It may also take a
block's own maximum first: ``exp(x - own) * exp(own - new)`` is ``exp(x - new)``.

Both are equations of real numbers, whatever the names are. What other rewrites read, such as sums
that are relative to a running maximum, then has one form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import libcst as cst

from solkit.tuner.proposers.rewriter._carried import OtherUpdateError, Trip, unpacked_statements
from solkit.tuner.proposers.rewriter._distinct_names import without_unread
from solkit.tuner.proposers.rewriter._first_values import start_of_name
from solkit.tuner.proposers.rewriter._memory import WRITES
from solkit.tuner.proposers.rewriter._nodes import (
    EXPONENTIALS,
    Body,
    Loop,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    free_name,
    integer_literal,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    parse_statements,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import (
    both_orders,
    call_args,
    comparison_parts,
    is_operation,
    is_zero,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction
from solkit.tuner.proposers.rewriter._values import all_names

_MOST_INLINED = 12
_TINY = 1e-6
_ROWS, _COLUMNS, _SCALAR = "[:, None]", "[None, :]", "scalar"
"""Where a vector stands in a block: its rows or its columns; a scalar is the same everywhere."""

_Change = Callable[[cst.BaseExpression, str], cst.BaseExpression | None]


def with_late_quotients(function: JitFunction) -> cst.FunctionDef:
    """Return a function whose loops leave divisions of their sums to the statements behind them."""
    body, is_changed = list(function.body), False
    for place in reversed(range(len(body))):
        loop = range_loop(body[place])
        if loop is None or not calls_within(loop.node, *EXPONENTIALS):
            continue
        names = function.names | names_within(*body)
        trip = _RewrittenTrip(loop, body[:place], body[place + 1 :], names)
        if trip.is_read:
            behind = [s for name in trip.carried for s in trip.divide_late(name)]
            trip.share_maxima()
            body[place : place + 1] = [with_body(loop.node, trip.statements()), *behind]
            is_changed |= trip.is_changed
    return without_unread(with_body(function.node, body), function) if is_changed else function.node


@dataclass(frozen=True)
class _Quotient:
    """A sum of weights that another sum is divided by.

    Attributes:
        name: that the loop carries.
        value: the numbered name of its next value.
        axis: of the other sum that it stands along.
    """

    name: str
    value: str
    axis: str


@dataclass
class _RewrittenTrip:
    """A trip some of whose statements change.

    Attributes:
        loop: the loop.
        before: statements ahead of it.
        after: statements behind it.
        taken: names that are in use.
        is_read: whether all of its statements could be followed.
    """

    loop: Loop
    before: Body
    after: Body
    taken: set[str]
    is_read: bool = True
    _now: list[dict[str, str]] = field(default_factory=list)
    _values: dict[int, cst.BaseExpression] = field(default_factory=dict)
    _new: dict[int, cst.BaseExpression] = field(default_factory=dict)
    _gone: set[int] = field(default_factory=set)
    _powers: dict[str, tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Give each assigned value a name of its own."""
        self._body = unpacked_statements(self.loop.body)
        self._trip = Trip(self._body, self.loop.name)
        try:
            for statement in self._body:
                self._now.append(dict(self._trip.current))
                self._trip.number(statement)
                if (binding := single_assignment(statement)) is not None:
                    numbered = self._trip.current[binding.target]
                    self._values[len(self._now) - 1] = self._trip.values[numbered]
        except OtherUpdateError:
            self.is_read = False
        written = assigned_names(*self._body)
        self.carried = [n for n in dict.fromkeys(written) if self._is_carried(n)]

    @property
    def is_changed(self) -> bool:
        """True if a statement is another one."""
        return bool(self._new)

    def _is_carried(self, name: str) -> bool:
        return any(
            name in names_within(s if (b := single_assignment(s)) is None else b.value)
            and name not in now
            for s, now in zip(self._body, self._now, strict=False)
        )

    def statements(self) -> list[cst.BaseStatement]:
        """Return the trip's statements as they are now."""
        result: list[cst.BaseStatement] = []
        read = names_within(*self._new.values())
        for place, statement in enumerate(self._body):
            result += [
                parse_statement(f"{name} = {code}")
                for code, (name, at) in self._powers.items()
                if at == place and name in read
            ]
            if place in self._new:
                binding = single_assignment(statement)
                assert binding is not None
                code = render_code(self._new[place])
                if code != binding.target:
                    result.append(parse_statement(f"{binding.target} = {code}"))
            elif place not in self._gone:
                result.append(statement)
        return result

    # ------------------------------------------------------------------------- late divisions

    def divide_late(self, name: str) -> Iterator[cst.BaseStatement]:
        """Leave a sum undivided in each trip; yield the statements that divide it behind them."""
        places = [i for i, s in enumerate(self._body) if name in assigned_names(s)]
        is_plain = all(single_assignment(self._body[i]) is not None for i in places)
        others = [s for i, s in enumerate(self._body) if i not in places]
        start = start_of_name(name, self.before)
        if not is_plain or start is None or not start.is_zero or name in names_within(*others):
            return
        for quotient in self._quotients(name, len(start.shape)):
            value = self._undivided(name, quotient)
            code = None if value is None else self._readable(value, places[-1], name)
            if value is None or code is None:
                continue
            self._gone |= set(places[:-1])
            self._values[places[-1]], self._new[places[-1]] = value, code
            self._drop_guard(quotient)
            total = free_name(f"{quotient.name}_total", self.taken)
            axis = "" if quotient.axis in ("", _SCALAR) else quotient.axis
            last = quotient.name
            yield from parse_statements(
                f"{total} = tl.where({last} == 0.0, 1.0, {last})\n{name} = {name} / {total}{axis}\n"
            )
            return

    def _drop_guard(self, quotient: _Quotient) -> None:
        """Let a sum be zero that a tiny number stood for, to divide by it in each trip."""
        place = next((i for i, v in self._values.items() if self._is_kept(v, quotient.value)), None)
        guard = cst.Name("x") if place is None else self._values[place]
        if place is None or called_name(guard) != "tl.where":
            return
        test, tiny, own = call_args(guard)
        zero = render_code(parenthesized(self._trip.peeled(test))).strip("()")
        is_tiny = isinstance(tiny, cst.Float) and abs(float(tiny.evaluated_value)) <= _TINY
        is_guard = is_tiny and zero in (f"{render_code(own)} == 0.0", f"{render_code(own)} == 0")
        code = self._readable(own, place)
        if is_guard and code is not None and quotient.name not in names_within(*self.after):
            self._values[place], self._new[place] = own, code

    def _is_kept(self, value: cst.BaseExpression, name: str) -> bool:
        return self._trip.values.get(name) is value

    def _quotients(self, name: str, rank: int) -> Iterator[_Quotient]:
        """Yield sums that start at zero and may divide another one, along each axis."""
        for other in self.carried:
            start = start_of_name(other, self.before)
            if other == name or start is None or not start.is_zero or len(start.shape) > 1:
                continue
            root = self._trip.root(cst.Name(self._trip.current[other]))
            axes = ("",) if rank == 1 else (_ROWS, _COLUMNS)
            for axis in axes if start.shape else (_SCALAR,):
                yield _Quotient(other, render_code(root), axis)

    def _undivided(self, name: str, quotient: _Quotient) -> cst.BaseExpression | None:
        """Return a sum's next value times a quotient's, over the sum times the quotient."""
        value = self._trip.peeled(cst.Name(self._trip.current[name]))
        onto = argument_of(value, 2, "acc") if isinstance(value, cst.Call) else None
        if isinstance(value, cst.Call) and called_name(value) == "tl.dot" and onto is not None:
            rest = value.with_changes(args=[arg for arg in value.args if arg.value is not onto])
            value = parse_expression(f"({render_code(onto)}) + {render_code(rest)}")
        if not is_operation(value, cst.Add):
            return None
        sides = [value.left, value.right]
        sides.sort(key=lambda side: name not in self._carried_in(side))
        kept, added = sides
        if name in self._carried_in(added):
            return None
        divided = partial(self._divided, quotient)
        dropped = partial(self._dropped, quotient)
        scale = self._linear(kept, quotient.axis, divided)
        scale = None if scale is None else self._linear(scale, quotient.axis, dropped)
        brought = self._linear(added, quotient.axis, divided)
        if scale is None or brought is None:
            return None
        return value.with_changes(left=parenthesized(scale), right=parenthesized(brought))

    def _divided(
        self, quotient: _Quotient, node: cst.BaseExpression, axis: str
    ) -> cst.BaseExpression | None:
        """Return what a quotient divides."""
        is_division = is_operation(node, cst.Divide)
        if not isinstance(node, cst.BinaryOperation) or not is_division:
            return None
        return node.left if self._is_divisor(quotient.value, node.right, axis) else None

    def _dropped(
        self, quotient: _Quotient, node: cst.BaseExpression, axis: str
    ) -> cst.BaseExpression | None:
        """Return what is left of a product without a quotient's last value."""
        if self._is_row(node, quotient.name, axis):
            return cst.Float("1.0")
        sides = both_orders(node, cst.Multiply)
        return next((b for a, b in sides if self._is_row(a, quotient.name, axis)), None)

    def _carried_in(self, node: cst.CSTNode) -> set[str]:
        return all_names(node, self._trip.values)

    def _is_divisor(self, value: str, node: cst.BaseExpression, axis: str) -> bool:
        """Tell whether a divisor is a numbered name, or what it is where it is not zero."""
        if self._is_row(node, value, axis):
            return True
        guard = self._trip.peeled(self._without_axis(node, axis))
        if called_name(guard) != "tl.where":
            return False
        test, *ways = call_args(guard)
        if (parts := comparison_parts(self._trip.peeled(test))) is None:
            return False
        total, sign, zero = parts
        kept = ways[1] if sign == "==" else ways[0]
        is_guard = sign in ("==", "!=", ">") and is_zero(zero)
        return is_guard and all(self._is_row(n, value, "") for n in (total, kept))

    # ------------------------------------------------------------------------- shared maxima

    def share_maxima(self) -> None:
        """Take powers relative to the running maximum where they are brought to it anyway."""
        for place, value in self._values.items():
            binding = single_assignment(self._body[place])
            if binding is None or place in self._gone:
                continue
            changed = self._fused(value, place)
            code = None if changed is value else self._readable(changed, place, binding.target)
            if code is not None:
                self._new[place] = code

    def _fused(self, value: cst.BaseExpression, place: int) -> cst.BaseExpression:
        for node in nodes_within(value):
            for one, other in both_orders(node, cst.Multiply):
                if (new := self._relative(one, other, place)) is not None:
                    return self._fused(replace_each(value, [(node, parenthesized(new))]), place)
        return value

    def _relative(
        self, scale: cst.BaseExpression, other: cst.BaseExpression, place: int
    ) -> cst.BaseExpression | None:
        """Return a product of ``exp(own - new)`` with what has a factor ``exp(x - own)``."""
        for axis in ("", _ROWS, _COLUMNS):
            power = self._trip.peeled(self._without_axis(scale, axis))
            parts = _shifted(power)
            if parts is None:
                continue
            own, new = (self._trip.root(part) for part in parts)
            if not self._is_larger(new, own):
                continue
            if (rank := axis or self._axis_of(new)) is None:
                continue
            change = partial(self._brought, own, new, called_name(power), place)
            if (result := self._linear(other, rank, change)) is not None:
                return result
        return None

    def _brought(
        self,
        own: cst.BaseExpression,
        new: cst.BaseExpression,
        power: str,
        place: int,
        node: cst.BaseExpression,
        axis: str,
    ) -> cst.BaseExpression | None:
        """Return a power relative to a new maximum, for one that is relative to its own."""
        shifted = _shifted(node) if called_name(node) == power else None
        if shifted is None or not self._is_row(shifted[1], render_code(own), axis):
            return None
        suffix = axis if axis in (_ROWS, _COLUMNS) else ""
        shown = render_code(parenthesized(shifted[0]))
        code = f"{power}({shown} - {render_code(new)}{suffix})"
        return self._named(parse_expression(code), place)

    def _axis_of(self, maximum: cst.BaseExpression) -> str | None:
        """Return how a running maximum stands in a product with a vector like it, or with any."""
        for name in self.carried:
            if self._is_row(cst.Name(self._trip.current[name]), render_code(maximum), ""):
                start = start_of_name(name, self.before)
                return None if start is None else ("" if len(start.shape) == 1 else _SCALAR)
        return None

    def _is_larger(self, new: cst.BaseExpression, own: cst.BaseExpression) -> bool:
        """Tell whether a value is the maximum of another and something else."""
        value = self._trip.peeled(new)
        if called_name(value) not in ("tl.maximum", "max"):
            return False
        args = list(map(self._trip.root, call_args(value)[:2]))
        return render_code(own) in map(render_code, args)

    def _named(self, power: cst.BaseExpression, place: int) -> cst.BaseExpression:
        """Return a name for a power, which several statements may share."""
        code = self._readable(power, place)
        if code is None:
            return power
        text = render_code(code)
        name, first = self._powers.get(text, ("", place))
        if not name:
            name = free_name("power", self.taken)
        self._powers[text] = name, min(first, place)
        return cst.Name(name)

    # ------------------------------------------------------------------------- expressions

    def _linear(
        self, node: cst.BaseExpression, axis: str, change: _Change
    ) -> cst.BaseExpression | None:
        """Return a value with one factor of each of its terms changed; ``None`` if one has none.

        Args:
            node: the value, over numbered names.
            axis: of the value along which the factor varies.
            change: gives the changed factor, or ``None``.
        """
        if (new := change(node, axis)) is not None:
            return new
        if isinstance(node, cst.Name):
            value = self._trip.values.get(node.value)
            return None if value is None else self._linear(value, axis, change)
        if isinstance(node, cst.Subscript):
            inner = node.value if axis == _SCALAR else self._without_axis(node, axis)
            within = axis if axis == _SCALAR else ""
            new = None if inner is node else self._linear(inner, within, change)
            return None if new is None else node.with_changes(value=parenthesized(new))
        if isinstance(node, cst.BinaryOperation):
            return self._linear_operation(node, axis, change)
        return self._linear_call(node, axis, change) if isinstance(node, cst.Call) else None

    def _linear_operation(
        self, node: cst.BinaryOperation, axis: str, change: _Change
    ) -> cst.BaseExpression | None:
        first = self._linear(node.left, axis, change)
        if isinstance(node.operator, (cst.Add, cst.Subtract)):
            second = None if first is None else self._linear(node.right, axis, change)
            if first is None or second is None:
                return None
            return node.with_changes(left=parenthesized(first), right=parenthesized(second))
        if first is not None and isinstance(node.operator, (cst.Multiply, cst.Divide)):
            if render_code(first) == "1.0" and isinstance(node.operator, cst.Multiply):
                return node.right
            return node.with_changes(left=parenthesized(first))
        if not isinstance(node.operator, cst.Multiply):
            return None
        second = self._linear(node.right, axis, change)
        if second is None:
            return None
        return (
            node.left
            if render_code(second) == "1.0"
            else node.with_changes(right=parenthesized(second))
        )

    def _linear_call(self, node: cst.Call, axis: str, change: _Change) -> cst.BaseExpression | None:
        name = called_name(node)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "to":
            inner = self._linear(node.func.value, axis, change)
            if inner is None or not (_is_wide(node) or self._is_share(inner)):
                return None  # a narrow type may not hold it
            return node.with_changes(func=node.func.with_changes(value=parenthesized(inner)))
        if name == "tl.where" and is_zero(node.args[2].value):
            return self._linear_argument(node, 1, axis, change)
        if name == "tl.dot" and argument_of(node, 2, "acc") is None:
            sides = {_ROWS: (0,), _COLUMNS: (1,), _SCALAR: (0, 1)}.get(axis, ())
            tries = (self._linear_argument(node, side, axis, change) for side in sides)
            return next((new for new in tries if new is not None), None)
        if name == "tl.sum":
            reduced = integer_literal(argument_of(node, 1, "axis"))
            within = {0: _COLUMNS, 1: _ROWS}.get(-1 if reduced is None else reduced, "")
            within = within if axis == "" else axis
            return None if within == "" else self._linear_argument(node, 0, within, change)
        return None

    def _linear_argument(
        self, node: cst.Call, place: int, axis: str, change: _Change
    ) -> cst.BaseExpression | None:
        arg = node.args[place]
        new = self._linear(arg.value, axis, change)
        return None if new is None else replace_each(node, [(arg.value, new)])

    def _is_share(self, node: cst.BaseExpression) -> bool:
        """Tell whether a value is at most 1: powers relative to their maximum, and products."""
        node = self._trip.peeled(node)
        if isinstance(node, cst.Subscript):
            return self._is_share(node.value)
        if is_operation(node, cst.Multiply):
            return self._is_share(node.left) and self._is_share(node.right)
        if called_name(node) == "tl.where":
            _, one, two = call_args(node)
            return self._is_share(one) and is_zero(two)
        parts = _shifted(node)
        return parts is not None and self._is_maximum(parts[1], parts[0])

    def _is_maximum(self, node: cst.BaseExpression, of: cst.BaseExpression) -> bool:
        """Tell whether a value is the maximum of another one, and perhaps of more."""
        node, of = self._trip.peeled(node), self._trip.root(of)
        if isinstance(node, cst.Subscript):
            return self._is_maximum(node.value, of)
        args = call_args(node) if isinstance(node, cst.Call) else []
        if called_name(node) == "tl.max":
            return render_code(self._trip.root(args[0])) == render_code(of)
        if called_name(node) == "tl.where":  # a maximum that is a fill may be 0
            is_fill = isinstance(args[0], cst.Comparison) and _is_equal_to_less(args[0])
            return is_fill and is_zero(args[1]) and self._is_maximum(args[2], of)
        is_larger = called_name(node) in ("tl.maximum", "max")
        same = (render_code(self._trip.root(arg)) == render_code(of) for arg in args)
        return is_larger and (any(same) or any(self._is_maximum(arg, of) for arg in args))

    def _without_axis(self, node: cst.BaseExpression, axis: str) -> cst.BaseExpression:
        """Return ``x`` for ``x[:, None]``, if that is the axis."""
        node = self._trip.root(node)
        if isinstance(node, cst.Name) and axis in (_ROWS, _COLUMNS):
            value = self._trip.values.get(node.value)
            node = value if isinstance(value, cst.Subscript) else node
        is_axis = isinstance(node, cst.Subscript) and render_code(node).endswith(axis)
        return node.value if is_axis and axis and isinstance(node, cst.Subscript) else node

    def _is_row(self, node: cst.BaseExpression, name: str, axis: str) -> bool:
        """Tell whether an expression is a vector, by its numbered name, along an axis."""
        inner = self._without_axis(node, axis)
        if axis in (_ROWS, _COLUMNS) and inner is self._trip.root(node):
            return False
        return render_code(self._trip.root(inner)) == name

    def _readable(
        self, node: cst.BaseExpression, place: int, own: str = ""
    ) -> cst.BaseExpression | None:
        """Return an expression over the names that the trip has at a statement; ``None`` if none.

        Args:
            node: over numbered names.
            place: of the statement among the trip's.
            own: what the statement assigns, whose earlier assignments are gone.
        """
        now, values = self._now[place], self._trip.values
        for _ in range(_MOST_INLINED):
            old = [n for n in names_within(node) & values.keys() if now.get(_plain(n)) != n]
            if not old:
                break
            if any(calls_within(values[n], "tl.load", *WRITES) for n in old):
                return None
            node = substitute_names(node, {n: self._inlined(values[n], place) for n in old})
        numbered = names_within(node) & values.keys()
        late = names_within(node) - numbered - {own}
        if any(now.get(_plain(n)) != n for n in numbered) or any(n in now for n in late):
            return None
        return substitute_names(node, {n: cst.Name(_plain(n)) for n in numbered})

    def _inlined(self, value: cst.BaseExpression, place: int) -> cst.BaseExpression:
        """Return what a name stood for, which has another value now."""
        is_power = called_name(value) in EXPONENTIALS
        return self._named(value, place) if is_power else parenthesized(value)


def _is_equal_to_less(test: cst.Comparison) -> bool:
    """Tell whether a value is compared for equality with a number below 0."""
    (to,) = test.comparisons
    return isinstance(to.operator, cst.Equal) and render_code(to.comparator).startswith("-")


def _is_wide(cast: cst.Call) -> bool:
    return [render_code(arg.value) for arg in cast.args] in (["tl.float32"], ["tl.float64"])


def _plain(numbered: str) -> str:
    return numbered.rsplit("__", 1)[0]


def _shifted(node: cst.BaseExpression) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return ``x`` and ``y`` of a power of ``x - y``."""
    if called_name(node) not in EXPONENTIALS:
        return None
    power = call_args(node)[0]
    is_difference = is_operation(power, cst.Subtract)
    if not is_difference or not isinstance(power, cst.BinaryOperation):
        return None
    return power.left, power.right
