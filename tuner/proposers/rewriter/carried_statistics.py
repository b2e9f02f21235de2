"""Statistics that a loop carries from trip to trip, and the code that joins those of two loops.

A *sum* or an *extreme* takes one value more in each trip. Sums *relative to a maximum* are rescaled
whenever that grows, as in an online softmax: with ``m`` the maximum and ``x`` a sum,

    m' = max(m, e)        x' = x * exp(m - m') + g        g proportional to exp(-m')

so ``x * exp(m)`` is a plain sum, whatever the order of the trips. Two parts of the trips join by
the same rule. Each name of a trip gets a *role*, which follows from how its value is made.

Notation
    old, new    the maximum before the trip, and after it
    scale       exp(c * (old - new)), with the same factor c everywhere
    weight      proportional to exp(-c * new), and free of anything else that is carried
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._parse import (
    EXPONENTIALS,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    names_within,
    parenthesized,
    parse_expression,
    render_code,
    single_assignment,
    walk_statements,
)

__all__ = ["Statistic", "carried_statistics"]

_MAXIMA = ("tl.maximum", "max", "tl.math.max")
_MINIMA = ("tl.minimum", "min", "tl.math.min")
_TYPES = {"tl.float32": "torch.float32", "tl.int32": "torch.int32", "tl.int64": "torch.int64"}
_LINEAR_CALLS = ("tl.sum", "tl.trans", "tl.reshape", "tl.expand_dims", "tl.broadcast_to")
_LINEAR_METHODS = ("to", "sum", "trans", "reshape", "expand_dims", "broadcast_to")
_LEAST = "-1.0e30"
"""Start of a maximum whose part may have nothing: ``-inf - -inf`` would be no number."""
_FAR_BELOW = -1e4


@dataclass(frozen=True)
class Statistic:
    """Value that a loop carries.

    Attributes:
        name: of the value.
        shape: its sizes as code; empty for a scalar.
        dtype: of torch.
        kind: ``"+"``, or the function that joins two of them.
        maximum: the name of the maximum that a sum is relative to; empty for none.
        exponential: the function that rescales.
        factor: of the maximum in the exponent; empty for 1.
        spread: the subscript that gives the maximum the axes of the sum; empty for none.
        start: its value ahead of the loop, as code, where that must change; else empty.
    """

    name: str
    shape: tuple[str, ...]
    dtype: str
    kind: str
    maximum: str = ""
    exponential: str = ""
    factor: str = ""
    spread: str = ""
    start: str = ""

    def joined(self, part: str) -> str:
        """Return the code that joins a plain one with another."""
        return f"{self.name} + {part}" if self.kind == "+" else f"{self.kind}({self.name}, {part})"

    def rescaled(self, by: str) -> str:
        """Return the code of the factor for a change of the maximum by a difference."""
        scaled = f"({by}) * {self.factor}" if self.factor else by
        return f"{self.exponential}({scaled}){self.spread}"


def carried_statistics(
    before: Sequence[cst.BaseStatement], body: Sequence[cst.BaseStatement], index: str
) -> list[Statistic] | None:
    """Return what a loop carries, maxima ahead of the sums that are relative to them.

    Args:
        before: the function's statements ahead of the loop.
        body: the loop's statements.
        index: the name that the loop counts with.

    Returns:
        ``None`` if it carries something else, or nothing.
    """
    outside = set(assigned_names(*before))
    carried = [name for name in dict.fromkeys(assigned_names(*body)) if name in outside]
    starts = {name: start for name in carried if (start := _start_of(name, before)) is not None}
    if not carried or len(starts) != len(carried):
        return None
    try:
        plain = [_plain_statistic(name, starts[name], body, set(carried)) for name in carried]
        if all(statistic is not None for statistic in plain):
            return [statistic for statistic in plain if statistic is not None]
        return _Trip(starts, {index, *assigned_names(*body)}).statistics(body)
    except _OtherRoleError:
        return None


# ------------------------------------------------------------------------------- starts


@dataclass(frozen=True)
class _Start:
    """Value of a carried name ahead of the loop.

    Attributes:
        shape: its sizes.
        dtype: of torch.
        value: each element's, as code.
        node: the whole expression.
    """

    shape: tuple[str, ...]
    dtype: str
    value: str
    node: cst.BaseExpression

    @property
    def is_zero(self) -> bool:
        """Absence of a first value to add to."""
        return self.value in ("0", "0.0", "0.")

    @property
    def is_least(self) -> bool:
        """Start of a maximum that is below all that matter."""
        return self._is_infinite or (_is_float(self.value) and float(self.value) <= _FAR_BELOW)

    @property
    def _is_infinite(self) -> bool:
        return "-" in self.value and "inf" in self.value

    @property
    def finite(self) -> str:
        """The start with a finite number that is below all that matter."""
        text = render_code(self.node)
        return text.replace(self.value, _LEAST) if self._is_infinite else ""


def _start_of(name: str, before: Sequence[cst.BaseStatement]) -> _Start | None:
    bindings = [a for s in before if (a := single_assignment(s)) is not None and a.target == name]
    if len(bindings) != 1 or assigned_names(*before).count(name) != 1:
        return None
    node = bindings[0].value
    if called_name(node) in ("tl.zeros", "tl.full"):
        return _start_of_block(cst.ensure_type(node, cst.Call))
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Add, cst.Subtract)):
        return _start_of_filled(node)
    text = render_code(node)
    number = text.lstrip("-").strip("()")
    if number.startswith("float(") or _is_float(number):
        return _Start((), "torch.float32", text, node)
    return _Start((), "torch.int32", text, node) if number.isdigit() else None


def _start_of_block(call: cst.Call) -> _Start | None:
    """Return the start that a block of one value is; ``None`` if its type or shape is hidden."""
    full = called_name(call) == "tl.full"
    shape, dtype = argument_of(call, 0, "shape"), argument_of(call, 2 if full else 1, "dtype")
    value = argument_of(call, 1, "value") if full else cst.Integer("0")
    if dtype is None or value is None or render_code(dtype) not in _TYPES:
        return None
    if not isinstance(shape, (cst.Tuple, cst.List)):
        return None
    sizes = tuple(render_code(element.value) for element in shape.elements)
    return _Start(sizes, _TYPES[render_code(dtype)], render_code(value), call)


def _start_of_filled(node: cst.BinaryOperation) -> _Start | None:
    """Return the start that ``tl.zeros(...) + number`` is."""
    if called_name(node.left) != "tl.zeros":
        return None
    block = _start_of_block(cst.ensure_type(node.left, cst.Call))
    sign = "-" if isinstance(node.operator, cst.Subtract) else ""
    number = render_code(node.right)
    if block is None or not (number.startswith("float(") or _is_float(number)):
        return None
    full = parse_expression(
        f"tl.full(({', '.join(block.shape)},), {sign}{number}, {_triton_type(block.dtype)})"
    )
    return replace(block, value=f"{sign}{number}", node=full)


def _triton_type(dtype: str) -> str:
    return dtype.replace("torch.", "tl.")


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text.isdigit()


# ------------------------------------------------------------------------------- plain ones


def _plain_statistic(
    name: str, start: _Start, body: Sequence[cst.BaseStatement], carried: set[str]
) -> Statistic | None:
    """Return a sum or an extreme of what depends on nothing that is carried; else ``None``."""
    statements = list(walk_statements(body))
    bindings = [
        a for s in statements if (a := single_assignment(s)) is not None and a.target == name
    ]
    if len(bindings) != 1 or assigned_names(*body).count(name) != 1:
        return None
    added, kind = _added_value(name, bindings[0].value)
    tainted = _dependents(carried, body)
    used_elsewhere = any(
        name in names_within(binding.value)
        for s in statements
        if (binding := single_assignment(s)) is not None and binding.target != name
    )
    if added is None or names_within(added) & tainted or used_elsewhere:
        return None
    if kind == "+" and not start.is_zero:
        return None
    return Statistic(name, start.shape, start.dtype, kind)


def _added_value(name: str, value: cst.BaseExpression) -> tuple[cst.BaseExpression | None, str]:
    """Return what a trip adds to a sum, or compares with an extreme, and how these join."""
    if isinstance(value, cst.BinaryOperation):
        minus = isinstance(value.operator, cst.Subtract)
        if isinstance(value.operator, (cst.Add, cst.Subtract)):
            if render_code(value.left) == name:
                return value.right, "+"
            if render_code(value.right) == name and not minus:
                return value.left, "+"
            inner, kind = _added_value(name, value.left)
            if kind == "+" and inner is not None and name not in names_within(value.right):
                return cst.Tuple([cst.Element(inner), cst.Element(value.right)]), "+"
    if called_name(value) in (*_MAXIMA, *_MINIMA):
        args = [arg.value for arg in cst.ensure_type(value, cst.Call).args[:2]]
        others = [arg for arg in args if render_code(arg) != name]
        if len(args) == 2 and len(others) == 1:
            return others[0], "tl.maximum" if called_name(value) in _MAXIMA else "tl.minimum"
    if called_name(value) == "tl.dot":
        call = cst.ensure_type(value, cst.Call)
        acc = argument_of(call, 2, "acc")
        if acc is not None and render_code(acc) == name:
            factors = [arg.value for arg in call.args if arg.value is not acc]
            return cst.Tuple([cst.Element(factor) for factor in factors]), "+"
    return None, ""


def _dependents(names: set[str], body: Sequence[cst.BaseStatement]) -> set[str]:
    """Return names, and those that a trip computes from them."""
    tainted = set(names)
    while True:
        more = {
            target
            for s in walk_statements(body)
            if isinstance(s, cst.SimpleStatementLine) and names_within(s) & tainted
            for target in assigned_names(s)
        }
        if more <= tainted:
            return tainted
        tainted |= more


# ------------------------------------------------------------------------------- relative sums


class _OtherRoleError(Exception):
    """An expression uses what is carried in another way."""


@dataclass(frozen=True)
class _Role:
    """Use of a carried value; see the module.

    Attributes:
        kind: ``"free"`` of all that is carried, ``"exponent"``, ``"scale"``, ``"weight"``,
            ``"sum"``, ``"rescaled"`` or ``"next"``.
        maximum: which the exponent, the scale or the weight is relative to.
        new, old: in an exponent, the factors of the maximum with their sign; empty for none.
        free: whether an exponent has something else, too.
        name: of the sum.
        spread: the subscript that a scale has.
        exponential: of a scale or a weight.
    """

    kind: str = "free"
    maximum: str = ""
    new: str = ""
    old: str = ""
    free: bool = False
    name: str = ""
    spread: str = ""
    exponential: str = ""


_FREE = _Role()


class _Trip:
    """Roles of names as one trip goes on.

    Args:
        starts: of what is carried.
        changing: names whose values differ between trips.
    """

    def __init__(self, starts: Mapping[str, _Start], changing: set[str]) -> None:
        self._starts, self._changing = starts, changing
        self._maxima = {name for name, start in starts.items() if start.is_least}
        self._roles = {
            name: _Role("exponent", name, old="+")
            if name in self._maxima
            else _Role("sum", name=name)
            for name in starts
        }
        self._scales: dict[str, _Role] = {}

    def statistics(self, body: Sequence[cst.BaseStatement]) -> list[Statistic]:
        """Return maxima and then the sums that are relative to them.

        Raises:
            _OtherRoleError: something else is carried.
        """
        for statement in body:
            binding = single_assignment(statement)
            if binding is None:
                if names_within(statement) & self._carriers():
                    raise _OtherRoleError
                continue
            self._roles[binding.target] = self._role(binding.value)
        return list(self._results())

    def _carriers(self) -> set[str]:
        return {name for name, role in self._roles.items() if role.kind != "free"}

    def _results(self) -> Iterator[Statistic]:
        for name in sorted(self._maxima):
            if self._roles[name] != _Role("exponent", name, new="+"):
                raise _OtherRoleError
            start = self._starts[name]
            yield Statistic(name, start.shape, start.dtype, "tl.maximum", start=start.finite)
        for name, start in self._starts.items():
            if name in self._maxima:
                continue
            role, scale = self._roles[name], self._scales.get(name)
            if role.kind != "next" or role.name != name or scale is None:
                raise _OtherRoleError  # its start is of no weight: its maximum's is far below
            factor = scale.old.removeprefix("+").removeprefix("*")
            yield Statistic(
                *(name, start.shape, start.dtype, "+"),
                maximum=scale.maximum,
                exponential=scale.exponential,
                factor=factor,
                spread=scale.spread,
            )

    # ------------------------------------------------------------------- expressions

    def _role(self, node: cst.BaseExpression) -> _Role:
        if isinstance(node, cst.Name):
            return self._roles.get(node.value, _FREE)
        if not names_within(node) & self._carriers():
            return _FREE
        if isinstance(node, cst.BinaryOperation):
            return self._operation(node)
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            return _negated(self._role(node.expression))
        if isinstance(node, cst.Subscript):
            return self._subscript(node)
        if isinstance(node, cst.Call):
            return self._call(node)
        raise _OtherRoleError

    def _subscript(self, node: cst.Subscript) -> _Role:
        role, code = self._role(node.value), render_code(node)
        spread = code[len(render_code(node.value)) :].strip()
        if role.kind == "scale" and not role.spread:
            return replace(role, spread=spread)
        if role.kind in ("weight", "exponent"):
            return role
        raise _OtherRoleError

    def _operation(self, node: cst.BinaryOperation) -> _Role:
        first, second = self._role(node.left), self._role(node.right)
        if isinstance(node.operator, cst.Multiply):
            return self._product(node, first, second)
        if isinstance(node.operator, cst.Divide) and second == _FREE and first.kind == "weight":
            return first
        if isinstance(node.operator, (cst.Add, cst.Subtract)):
            if isinstance(node.operator, cst.Subtract):
                second = _negated(second)
            return self._sum(first, second)
        raise _OtherRoleError

    def _product(self, node: cst.BinaryOperation, first: _Role, second: _Role) -> _Role:
        kinds = {first.kind, second.kind}
        if kinds == {"weight", "free"}:
            return first if first.kind == "weight" else second
        if kinds == {"sum", "scale"}:
            total, scale = (first, second) if first.kind == "sum" else (second, first)
            self._scales[total.name] = scale
            return replace(total, kind="rescaled", maximum=scale.maximum, old=scale.old)
        if kinds == {"exponent", "free"}:
            role, factor = (first, node.right) if first.kind == "exponent" else (second, node.left)
            code = f"*{render_code(parenthesized(factor))}"
            if any(side.strip("+-") for side in (role.new, role.old)):
                raise _OtherRoleError
            if names_within(factor) & self._changing or calls_within(factor):
                raise _OtherRoleError  # another factor in each trip would join nothing
            return replace(
                role,
                new=role.new and role.new + code,
                old=role.old and role.old + code,
            )
        raise _OtherRoleError

    def _sum(self, first: _Role, second: _Role) -> _Role:
        kinds = {first.kind, second.kind}
        if kinds == {"rescaled", "weight"}:
            total, weight = (first, second) if first.kind == "rescaled" else (second, first)
            return self._next(total, weight)
        if kinds == {"weight"} and first.maximum == second.maximum:
            return first
        if kinds <= {"exponent", "free"}:
            if len({role.maximum for role in (first, second)} - {""}) > 1:
                raise _OtherRoleError
            if (first.new and second.new) or (first.old and second.old):
                raise _OtherRoleError
            free = first.free or second.free or "free" in kinds
            new, old = first.new or second.new, first.old or second.old
            return _Role("exponent", first.maximum or second.maximum, new, old, free)
        raise _OtherRoleError

    def _next(self, total: _Role, weight: _Role) -> _Role:
        scale = self._scales[total.name]
        is_same = scale.exponential == weight.exponential and _inverted(scale.old) == weight.new
        if total.maximum != weight.maximum or not is_same:
            raise _OtherRoleError
        return replace(total, kind="next")

    def _call(self, node: cst.Call) -> _Role:
        name = called_name(node)
        if name in _MAXIMA:
            return self._grown(node)
        if name in EXPONENTIALS:
            return self._exponential(name, self._role(node.args[0].value))
        if name == "tl.dot":
            return self._dot(node)
        if name == "tl.where":
            return self._where(node)
        inside = _inside_linear_call(node)
        if inside is not None and (role := self._role(inside)).kind == "weight":
            return role
        raise _OtherRoleError

    def _grown(self, node: cst.Call) -> _Role:
        """Return the role of the maximum that has grown."""
        roles = [self._role(arg.value) for arg in node.args[:2]]
        olds = [role for role in roles if role.kind == "exponent"]
        if len(olds) != 1 or len(roles) != 2 or roles.count(_FREE) != 1:
            raise _OtherRoleError
        if olds[0] != _Role("exponent", olds[0].maximum, old="+"):
            raise _OtherRoleError
        return _Role("exponent", olds[0].maximum, new="+")

    def _exponential(self, name: str, role: _Role) -> _Role:
        if role.kind != "exponent" or not role.new.startswith("-"):
            raise _OtherRoleError
        if role.free and not role.old:
            return replace(role, kind="weight", exponential=name)
        if not role.free and _inverted(role.old) == role.new:
            return replace(role, kind="scale", exponential=name)
        raise _OtherRoleError

    def _dot(self, node: cst.Call) -> _Role:
        factors = [self._role(arg.value) for arg in node.args[:2]]
        if sorted(role.kind for role in factors) != ["free", "weight"]:
            raise _OtherRoleError
        weight = next(role for role in factors if role.kind == "weight")
        acc = argument_of(node, 2, "acc")
        return weight if acc is None else self._sum(self._role(acc), weight)

    def _where(self, node: cst.Call) -> _Role:
        """Return the role of a value that is left out for some elements."""
        condition, value, other = (argument_of(node, place) for place in range(3))
        if condition is None or value is None or other is None or self._role(condition) != _FREE:
            raise _OtherRoleError
        role = self._role(value)
        zero = render_code(other) in ("0", "0.0")
        least = "-" in render_code(other) and "inf" in render_code(other)
        if (role.kind == "weight" and zero) or (role.kind == "exponent" and role.free and least):
            return role
        raise _OtherRoleError


def _inside_linear_call(node: cst.Call) -> cst.BaseExpression | None:
    """Return the one argument of a call that is linear in it, or the value of such a method."""
    if called_name(node) in _LINEAR_CALLS:
        return node.args[0].value
    func = node.func
    if isinstance(func, cst.Attribute) and func.attr.value in _LINEAR_METHODS:
        return None if called_name(node).startswith("tl.") else func.value
    return None


def _negated(role: _Role) -> _Role:
    if role.kind == "exponent":
        return replace(role, new=_inverted(role.new), old=_inverted(role.old))
    if role.kind in ("free", "weight"):
        return role
    raise _OtherRoleError


def _inverted(factor: str) -> str:
    """Return a factor with the other sign."""
    if not factor:
        return ""
    return ("-" if factor[0] == "+" else "+") + factor[1:]
