"""The bound as a formula of named sizes.

Each amount of work (operations of a pipe, bytes) gets a formula in one of two ways. *Traced*: the
reference runs on symbolic shapes, so its cost is symbolic. *Fitted*: if the cost depends on numbers
(masks, known indices), a polynomial goes through exact counts at a lattice of sizes. A formula is
kept only if it gives the numeric count at further sizes.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import sympy

from solkit.core import Device, Tolerance, Value, Work
from solkit.errors import InputError
from solkit.roofline.bound import SCALAR_OPS, amounts_by_ceiling, bound
from solkit.roofline.precision_routes import Rule, contraction_dtype

READ, WRITTEN = "dram read", "dram written"
_DEGREE = 4  # attention is of degree 4: batch, heads, queries, keys
_TRIED = 3  # sizes besides the problem's own at which each formula is checked
_ATTEMPTS = 30  # draws to find them: the program may need sizes that divide
_MATCH = 0.01  # of a symbolic amount with its numeric one

Point = Mapping[str, int]
Count = Callable[[Point], Mapping[str, int]]


@dataclass(frozen=True)
class Formula:
    """One amount of work as a formula.

    Attributes:
        amount: a key of `Work.operations`, ``"dram read"`` or ``"dram written"``.
        expression: in sympy's syntax; empty if refused.
        origin: ``"traced"``, ``"fitted"`` or ``"refused"``.
        reason: why it is not traced, or refused.
    """

    amount: str
    expression: str
    origin: str
    reason: str = ""


@dataclass(frozen=True)
class SymbolicWork:
    """The work of a problem in symbols.

    Attributes:
        sizes: the symbols, with their values in the problem's own shape.
        fixed: the other sizes.
        formulas: one per amount.
        checked: sizes at which every formula gave the numeric amount, with that work.
        conditions: on the sizes: those of the symbolic run, or shared by all checked sizes.
        tolerance: of the problem.
    """

    sizes: Point
    fixed: Mapping[str, Value]
    formulas: tuple[Formula, ...]
    checked: tuple[tuple[Point, Work], ...]
    conditions: tuple[str, ...] = ()
    tolerance: Tolerance | None = None


@dataclass(frozen=True)
class SymbolicBound:
    """The roofline of a problem as a formula.

    Attributes:
        work: the amounts.
        device: the device's name.
        resources: seconds of each resource, an amount over a rate, in sympy's syntax.
        time_s: the bound in seconds: the largest of them.
        complete: whether all amounts have formulas; else `time_s` is a lower bound of the bound.
        precision: the rule and its choice.
        times_ms: ``(sizes, by the formula, numeric)`` at each checked size.
    """

    work: SymbolicWork
    device: str
    resources: Mapping[str, str]
    time_s: str
    complete: bool
    precision: str
    times_ms: tuple[tuple[Point, float, float], ...]


def named_sizes(names: Sequence[str], sizes: Mapping[str, Value], path: str) -> dict[str, int]:
    """Return the values of the sizes that become symbols.

    Raises:
        InputError: a size is unknown, or not a positive integer.
    """
    valid = [
        n for n, v in sizes.items() if isinstance(v, int) and not isinstance(v, bool) and v > 0
    ]
    unknown = [name for name in names if name not in valid]
    if unknown or not names:
        choices = ", ".join(valid) or "none (inputs() names no integer size)"
        wrong = ", ".join(map(repr, unknown)) or "nothing"
        raise InputError(f"{path}: {wrong} cannot be a symbol; the integer sizes are: {choices}")
    return {name: int(sizes[name]) for name in names}  # type: ignore[arg-type]


def amounts_of(work: Work) -> dict[str, int]:
    """Return every amount of work that takes time in `solkit.roofline.bound`."""
    moved = {READ: work.dram_read_bytes, WRITTEN: work.dram_write_bytes}
    return {**work.operations, **moved}


# --------------------------------------------------------------------------------- formulas


def explained_formulas(
    sizes: Point, count: Count, traced: Mapping[str, sympy.Expr], reason: str
) -> tuple[tuple[Formula, ...], tuple[Point, ...]]:
    """Return a formula for each amount, checked at the problem's own and at further sizes.

    Args:
        sizes: the symbols with the problem's own values.
        count: the numeric amounts at given sizes; raises `InputError` if the sizes do not fit.
        traced: the formulas of the symbolic run; may be empty.
        reason: why that run failed, or which sizes it fixed; may be empty.

    Returns:
        The formulas, and the checked sizes.
    """
    counts = {_point_key(sizes): count(sizes)}
    points = [dict(sizes), *_random_sizes(sizes, count, counts)]
    names = sorted({amount for amounts in counts.values() for amount in amounts})

    def formula(amount: str) -> Formula:
        numbers = [counts[_point_key(point)].get(amount, 0) for point in points]
        expression = traced.get(amount, sympy.Integer(0))
        if traced and _formula_matches(expression, points, numbers, _MATCH):
            return Formula(amount, _readable(expression), "traced")
        why = reason or "its count depends on numbers (masks, indices, comparisons of sizes)"
        return _fit_polynomial(amount, sizes, count, points, numbers, why)

    return tuple(map(formula, names)), tuple(points)


def _random_sizes(
    sizes: Point, count: Count, counts: dict[tuple[int, ...], Mapping[str, int]]
) -> list[Point]:
    """Random sizes that the program accepts, about a quarter to twice the problem's own.

    None is in a lattice to which a polynomial is fitted.
    """
    draw = random.Random(0)
    fitted = {_point_key(point) for point in _principal_lattice(sizes, _DEGREE)}
    points: list[Point] = []
    for attempt in range(_ATTEMPTS):
        steps = {name: _size_step(n) if attempt > _TRIED else 1 for name, n in sizes.items()}
        point = {
            name: step * draw.randint(max(1, n // (4 * step)), max(2 * n, n + 8 * step) // step)
            for (name, n), step in zip(sizes.items(), steps.values())
        }
        if _point_key(point) in counts or _point_key(point) in fitted:
            continue
        try:
            counts[_point_key(point)] = count(point)
        except InputError:  # e.g. sizes that do not divide
            continue
        points.append(point)
        if len(points) == _TRIED:
            return points
    raise InputError(
        f"the program accepts only {len(points)} of {_ATTEMPTS} other values of "
        f"{', '.join(sizes)}, too few to check a formula (wanted {_TRIED})"
    )


def multiples(points: Sequence[Point]) -> tuple[str, ...]:
    """Return the sizes of which only multiples were checked, as the program accepts no others."""
    divisors = {name: math.gcd(*(point[name] for point in points)) for name in points[0]}
    return tuple(f"{name} is a multiple of {n}" for name, n in divisors.items() if n > 1)


def _point_key(point: Point) -> tuple[int, ...]:
    return tuple(point.values())


def _size_step(n: int) -> int:
    """Return an eighth of a size if that is whole, else 1: sizes are mostly multiples of blocks."""
    return n // 8 if n % 8 == 0 else 1


def _formula_matches(
    expression: sympy.Expr, points: Sequence[Point], numbers: Sequence[int], within: float
) -> bool:
    values = [_evaluate_at(expression, point) for point in points]
    return all(abs(got - n) <= within * n for got, n in zip(values, numbers))


def _evaluate_at(expression: sympy.Expr, point: Point) -> sympy.Expr:
    return expression.subs({_size_symbol(name): n for name, n in point.items()})


def _size_symbol(name: str) -> sympy.Symbol:
    return sympy.Symbol(name, integer=True, positive=True)


def _readable(expression: sympy.Expr) -> str:
    """Return the shortest of several equal forms."""
    whole = expression.replace(sympy.floor, lambda x: x if _is_whole(x) else sympy.floor(x))
    forms = (whole, sympy.expand(whole), sympy.factor(whole))
    return str(min(forms, key=sympy.count_ops))


def _is_whole(expression: sympy.Expr) -> bool:
    """Tell whether a polynomial is an integer at every integer point, e.g. n(n + 1)/2.

    It suffices to check the points 0 to its degree in each variable (Polya 1915).
    """
    if not expression.is_polynomial():
        return False
    symbols = sorted(expression.free_symbols, key=str)
    reach = [range(sympy.degree(expression, symbol) + 1) for symbol in symbols]
    points = itertools.product(*reach)
    return all(expression.subs(dict(zip(symbols, point))).is_integer for point in points)


def _fit_polynomial(
    amount: str,
    sizes: Point,
    count: Count,
    points: Sequence[Point],
    numbers: Sequence[int],
    reason: str,
) -> Formula:
    """Fit the polynomial of least degree to the numeric amounts, if it is exact elsewhere."""
    counts: dict[tuple[int, ...], int] = {}
    try:
        for degree in range(_DEGREE + 1):
            for point in _principal_lattice(sizes, degree):
                if _point_key(point) not in counts:
                    counts[_point_key(point)] = count(point).get(amount, 0)
            expression = _interpolated(list(sizes), counts, degree)
            if _formula_matches(expression, points, numbers, 0.0):
                others = len(points) - 1  # the problem's own is in the lattice
                why = f"{reason}; exact at {len(counts)} sizes of a lattice and {others} others"
                return Formula(amount, _readable(expression), "fitted", why)
    except InputError as error:
        return Formula(amount, "", "refused", f"{reason}; and no polynomial was fitted: {error}")
    why = f"{reason}; and no polynomial of degree {_DEGREE} or less gives it at the sizes tried"
    return Formula(amount, "", "refused", why)


def _exponents(variables: int, degree: int) -> Iterator[tuple[int, ...]]:
    """Yield all monomials up to a total degree."""
    for powers in itertools.product(range(degree + 1), repeat=variables):
        if sum(powers) <= degree:
            yield powers


def _principal_lattice(sizes: Point, degree: int) -> Iterator[dict[str, int]]:
    """Yield points that determine a polynomial of that degree (a simplex's principal lattice)."""
    for steps in _exponents(len(sizes), degree):
        yield {
            name: n - k * _size_step(n) if n > _DEGREE * _size_step(n) else n + k * _size_step(n)
            for (name, n), k in zip(sizes.items(), steps)
        }


def _interpolated(
    names: Sequence[str], counts: Mapping[tuple[int, ...], int], degree: int
) -> sympy.Expr:
    """Return the polynomial through all counts, in exact rationals."""
    powers = list(_exponents(len(names), degree))
    rows = [[sympy.prod([n**p for n, p in zip(key, ps)]) for ps in powers] for key in counts]
    system = sympy.polys.matrices.DomainMatrix.from_Matrix(sympy.Matrix(rows)).to_field()
    right = sympy.polys.matrices.DomainMatrix.from_Matrix(sympy.Matrix(list(counts.values())))
    solved = system.lu_solve(right.convert_to(system.domain)).to_Matrix()
    symbols = [_size_symbol(name) for name in names]
    return sum(
        (c * sympy.prod([s**p for s, p in zip(symbols, ps)]) for c, ps in zip(solved, powers)),
        sympy.Integer(0),
    )


# ------------------------------------------------------------------------------------ bound


def symbolic_bound(work: SymbolicWork, device: Device, precision: str) -> SymbolicBound:
    """Return the roofline as a formula, compared with `solkit.roofline.bound` at every size.

    Args:
        work: the amounts.
        device: its ceilings are the rates; all bytes go through DRAM.
        precision: as for `solkit.roofline.bound.bound`.

    Raises:
        InputError: the precision is unknown, or formula and numeric bound differ.
    """
    amounts = {
        f.amount: _parse_expression(f.expression, work.sizes) for f in work.formulas if f.expression
    }
    rule = Rule(precision, work.tolerance)
    routes = rule.routes(amounts, device)
    rated = _resources(amounts, rule, device)
    seconds = {name: _quotient(*ratio) for name, ratio in rated.items()}
    time = sympy.Max(0, *(amount / sympy.Float(rate) for amount, rate in rated.values()))
    times = []
    for point, numeric in work.checked:
        numeric_bound = bound(numeric, device, precision=precision, tolerance=work.tolerance)
        times.append((point, 1e3 * float(_evaluate_at(time, point)), numeric_bound.time_ms))
    formulas = SymbolicBound(
        work=work,
        device=device.name,
        resources=seconds,
        time_s=f"Max({', '.join(seconds.values())})",
        complete=all(f.expression for f in work.formulas),
        precision=rule.describe(routes),
        times_ms=tuple(times),
    )
    return _agreeing(formulas)


def _agreeing(formulas: SymbolicBound) -> SymbolicBound:
    for point, formula_ms, numeric_ms in formulas.times_ms:
        low = (1 - _MATCH) * numeric_ms if formulas.complete else 0.0
        if not low <= formula_ms <= (1 + _MATCH) * numeric_ms:
            sizes = ", ".join(f"{name}={n}" for name, n in point.items())
            raise InputError(
                f"the formula is refused: it gives {formula_ms:.6g} ms at {sizes}, where the "
                f"numeric bound is {numeric_ms:.6g} ms"
            )
    return formulas


def _parse_expression(expression: str, sizes: Point) -> sympy.Expr:
    return sympy.sympify(expression, locals={name: _size_symbol(name) for name in sizes})


def _resources(
    amounts: Mapping[str, sympy.Expr], rule: Rule, device: Device
) -> dict[str, tuple[sympy.Expr, float]]:
    """Amount and rate of each resource, as in `solkit.roofline.bound`."""
    routes = rule.routes(amounts, device)
    moved = sum(amounts.get(name, sympy.Integer(0)) for name in (READ, WRITTEN))
    operations = {name: n for name, n in amounts.items() if name not in (READ, WRITTEN)}
    totals = amounts_by_ceiling({**operations, "dram": moved}, routes, device)
    passed = {
        name: amount * routes[kind].passes if (kind := contraction_dtype(name)) else amount
        for name, amount in operations.items()
    }
    in_passes = amounts_by_ceiling({**passed, "dram": moved}, routes, device)
    rates = {name: (n, device.ceilings[name].value) for name, n in in_passes.items()}
    tensor = {name: rated for name, rated in rates.items() if name.startswith("tensor.")}
    if len(tensor) > 1:  # they take turns: scaled to the rate of the first
        rate = next(iter(tensor.values()))[1]
        parts = [n * sympy.Rational(round(1e6 * rate / own), 10**6) for n, own in tensor.values()]
        rates["tensor"] = sum(parts, sympy.Integer(0)), rate
    scalar = [
        totals[name] / per_instruction
        for name, per_instruction in SCALAR_OPS.items()
        if name in rates
    ]
    if len(scalar) > 1 and "issue" in device.ceilings:
        rates["issue"] = sum(scalar, sympy.Integer(0)), device.ceilings["issue"].value
    return rates


def _quotient(amount: sympy.Expr, rate: float) -> str:
    """Return seconds as a readable Python expression."""
    text = _readable(amount)
    return f"({text})/{rate:.6g}" if amount.is_Add or " + " in text else f"{text}/{rate:.6g}"
