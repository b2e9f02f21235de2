"""The best order in which a term is contracted, by dynamic programming over its leaves.

A state is a set of leaves with the conditions that were applied to it. A condition joins two states
(a convolution: one label of each, and a new one), or changes one (a window, a slice, a running
sum). Costs are operations on tensor cores; one on the scalar pipes counts as `SCALAR` of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from solkit.roofline.best.axes import Sizes
from solkit.roofline.best.simplify import free_labels
from solkit.roofline.best.terms import Equation, Labels, Leaf, Term, Triangle

SCALAR = 8.0
_MOST_LEAVES = 8
_MOST_CONDITIONS = 8


@dataclass(frozen=True)
class Source:
    """A leaf, summed over the labels that nothing else has."""

    leaf: Leaf
    labels: frozenset[int]


@dataclass(frozen=True)
class Counted:
    """A constant: how many solutions an equation has for each pair of its bound labels."""

    equation: Equation
    free: frozenset[int]
    labels: frozenset[int]


@dataclass(frozen=True)
class Applied:
    """A condition applied to one tensor."""

    child: Plan
    condition: Equation | Triangle
    free: frozenset[int]
    labels: frozenset[int]


@dataclass(frozen=True)
class Joined:
    """A product of two tensors, summed, along equations convolved."""

    lhs: Plan
    rhs: Plan
    equations: tuple[Equation, ...]
    free: frozenset[int]
    labels: frozenset[int]


Plan = Source | Counted | Applied | Joined


def best_order(term: Term, labels: Labels, sizes: Sizes) -> tuple[float, Plan] | None:
    """Return the least cost of a term and its plan; ``None`` if it cannot be written as steps."""
    search = _Search(term, labels, sizes)
    return search.best() if search.leaves and search.is_possible else None


@dataclass(frozen=True)
class _Phase:
    """One phase of a composite equation: results ``p = count * m + offset``.

    Attributes:
        offset: of the results.
        taps: pairs of a shift ``u`` of the data and the places ``k`` of the weight that it takes.
    """

    offset: int
    taps: tuple[tuple[int, tuple[int, ...]], ...]


def phases(
    equation: Equation, data: int, tap: int, result: int, free: int | None, size: Mapping[int, int]
) -> tuple[int, int, tuple[_Phase, ...]] | None:
    """Return a composite convolution as plain ones: how many phases, their stride, and each.

    ``0 <= a * i + b * p + d * k + c < R``: the result ``p = n * m + offset`` takes the data at
    ``i = u + stride * m``.
    """
    unit = 1 if free is None else equation.factor(free)
    if abs(unit) != 1:
        return None
    a, b, d = (-unit * equation.factor(label) for label in (data, result, tap))
    constant, window = -unit * equation.constant, 1 if free is None else size[free]
    if a * b >= 0:
        return None
    count = abs(a) // math.gcd(a, b)
    stride = -b * count // a
    parts = []
    for offset in range(min(count, size[result])):
        taps: dict[int, list[int]] = {}
        for k in range(size[tap]):
            base = b * offset + d * k + constant
            ends = sorted((-base / a, (window - 1 - base) / a))
            for u in range(math.ceil(ends[0]), math.floor(ends[1]) + 1):
                taps.setdefault(u, []).append(k)
        parts.append(_Phase(offset, tuple((u, tuple(ks)) for u, ks in sorted(taps.items()))))
    return count, stride, tuple(parts)


@dataclass(frozen=True)
class _State:
    cost: float
    plan: Plan


class _Search:
    def __init__(self, term: Term, labels: Labels, sizes: Sizes) -> None:
        self.term, self.labels, self.sizes = term, labels, sizes
        self.free = {eq: free_labels(term, eq) for eq in term.equations}
        self.is_possible = True
        self.out = term.results
        self.leaves: list[Source | Counted] = []
        self.conditions: list[Equation | Triangle] = list(term.triangles)
        self._sort_equations()
        self._add_leaves()
        self.is_possible &= len(self.conditions) <= _MOST_CONDITIONS
        self._needed: dict[tuple[int, int], frozenset[int]] = {}

    def size(self, label: int) -> int:
        return self.sizes[self.labels.atoms[label]]

    def count(self, labels: Iterable[int]) -> float:
        return float(math.prod(self.size(label) for label in labels))

    def _sort_equations(self) -> None:
        """Split equations into constants, which are leaves, and conditions."""
        in_leaves = {n for leaf in self.term.leaves for n in leaf.labels}
        self.counted: list[Counted] = []
        for equation in self.term.equations:
            free = self.free[equation]
            bound = equation.labels - free
            if len(bound) == 3 or (len(bound) == 2 and not bound <= in_leaves):
                self.conditions.append(equation)
            elif len(bound) in (1, 2):
                self.counted.append(Counted(equation, free, bound))
            else:
                self.is_possible = False

    def _add_leaves(self) -> None:
        for leaf in self.term.leaves:
            self.leaves.append(Source(leaf, frozenset(leaf.labels)))
        self.leaves += self.counted

    def _condition_labels(self, number: int) -> frozenset[int]:
        condition = self.conditions[number]
        if isinstance(condition, Triangle):
            return frozenset((condition.row, condition.column))
        return condition.labels - self.free[condition]

    def needed(self, leaves: int, conditions: int) -> frozenset[int]:
        """Return the labels that what is outside of a state has."""
        key = leaves, conditions
        if key not in self._needed:
            labels = set(self.out)
            for number, leaf in enumerate(self.leaves):
                if not leaves >> number & 1:
                    labels |= leaf.labels
            for number in range(len(self.conditions)):
                if not conditions >> number & 1:
                    labels |= self._condition_labels(number)
            self._needed[key] = frozenset(labels)
        return self._needed[key]

    # --------------------------------------------------------------------------- the search

    def best(self) -> tuple[float, Plan] | None:
        count = len(self.leaves)
        if count > _MOST_LEAVES:
            return self._greedy()
        table: dict[int, dict[int, _State]] = {}
        for leaves in range(1, 1 << count):
            states: dict[int, _State] = {}
            if leaves & (leaves - 1) == 0:
                self._offer(states, 0, self._start(leaves.bit_length() - 1))
            lowest = leaves & -leaves
            part = (leaves - 1) & leaves
            while part:
                if part & lowest:
                    self._join_all(table, part, leaves ^ part, states)
                part = (part - 1) & leaves
            self._apply_all(leaves, states)
            table[leaves] = states
        whole = table[(1 << count) - 1].get((1 << len(self.conditions)) - 1)
        return None if whole is None else (whole.cost, whole.plan)

    def _start(self, number: int) -> _State:
        leaf = self.leaves[number]
        kept = leaf.labels & self.needed(1 << number, 0)
        if kept == leaf.labels:
            return _State(0.0, leaf)
        cost = SCALAR * self.count(leaf.labels)
        if isinstance(leaf, Counted):
            return _State(0.0, Counted(leaf.equation, leaf.equation.labels - kept, kept))
        return _State(cost, Source(leaf.leaf, kept))

    def _offer(self, states: dict[int, _State], conditions: int, state: _State | None) -> None:
        if state is not None and (conditions not in states or state.cost < states[conditions].cost):
            states[conditions] = state

    def _join_all(
        self, table: dict[int, dict[int, _State]], one: int, other: int, states: dict[int, _State]
    ) -> None:
        for left_conditions, lhs in table[one].items():
            for right_conditions, rhs in table[other].items():
                if left_conditions & right_conditions:
                    continue
                done = left_conditions | right_conditions
                joined = self._joined(one | other, done, lhs, rhs)
                if joined is not None:
                    self._offer(states, *joined)

    def _joined(
        self, leaves: int, done: int, lhs: _State, rhs: _State
    ) -> tuple[int, _State] | None:
        """Return the product of two states with every condition that links them."""
        a, b = lhs.plan.labels, rhs.plan.labels
        links = [
            number
            for number, condition in enumerate(self.conditions)
            if not done >> number & 1
            and isinstance(condition, Equation)
            and len(self._condition_labels(number)) == 3
            and len(self._condition_labels(number) & a) == 1
            and len(self._condition_labels(number) & b) == 1
            and not self._condition_labels(number) <= a | b
        ]
        equations = []
        added: set[int] = set()
        for number in links:
            done |= 1 << number
            equation = self.conditions[number]
            assert isinstance(equation, Equation)
            equations.append(equation)
            added |= self._condition_labels(number) - a - b
        kept = (a | b | added) & self.needed(leaves, done)
        summed = (a | b) - kept
        free: frozenset[int] = frozenset().union(*(self.free[eq] for eq in equations))
        if equations:
            slides = self._slides(equations, a, b, kept)
            if slides is None:
                return None
            linked = {n for eq in equations for n in eq.labels}
            cost = 2 * slides * self.count((a | b) - linked)
        else:
            cost = (2 if summed else SCALAR) * self.count(a | b)
        plan = Joined(lhs.plan, rhs.plan, tuple(equations), free, kept)
        return done, _State(lhs.cost + rhs.cost + cost, plan)

    def _slides(
        self, equations: list[Equation], a: frozenset[int], b: frozenset[int], kept: frozenset[int]
    ) -> float | None:
        """Return the multiply-adds of the sliding dimensions; ``None`` if no operator does it."""
        if len(equations) > 3:
            return None
        total, kinds = 1.0, set()
        composite = any(self.free[eq] for eq in equations)
        for eq in equations:
            roles = slide_roles(eq, self.free[eq], a, b, self.size)
            if roles is None or {roles.data, roles.tap} & kept:
                return None
            kinds.add((roles.data in a, roles.transposed and not composite))
            size = {n: self.size(n) for n in eq.labels}
            if composite:
                cut = phases(eq, roles.data, roles.tap, roles.result, _only(self.free[eq]), size)
                if cut is None:
                    return None
                count, _, parts = cut
                total *= sum(
                    len(range(p.offset, size[roles.result], count)) * len(p.taps) for p in parts
                )
            else:
                outer = roles.data if roles.transposed else roles.result
                total *= size[outer] * size[roles.tap]
        return total if len(kinds) == 1 else None

    def _apply_all(self, leaves: int, states: dict[int, _State]) -> None:
        """Apply conditions on one tensor, in any order."""
        waiting = list(states.items())
        while waiting:
            done, state = waiting.pop()
            if states[done] is not state:
                continue
            for number in range(len(self.conditions)):
                if done >> number & 1:
                    continue
                changed = self._applied(leaves, done | 1 << number, state, number)
                if changed is None:
                    continue
                before = states.get(done | 1 << number)
                if before is None or changed.cost < before.cost:
                    states[done | 1 << number] = changed
                    waiting.append((done | 1 << number, changed))

    def _applied(self, leaves: int, done: int, state: _State, number: int) -> _State | None:
        condition, labels = self.conditions[number], self._condition_labels(number)
        own = state.plan.labels
        if isinstance(condition, Equation):
            free = self.free[condition]
            if len(labels) != 2 or len(labels & own) != 1:
                return None
            (source,), (result,) = labels & own, labels - own
            kept = (own | {result}) & self.needed(leaves, done)
            if source in kept or not is_window(condition, source, result, free, self.size):
                return None
        else:
            free = frozenset()
            if not labels & own:
                return None
            kept = (own | labels) & self.needed(leaves, done)
            if not labels <= own and labels & own & kept:
                return None
        taps = self.count(free)
        cost = SCALAR * taps * max(self.count(kept), self.count(own) if not free else 0)
        return _State(state.cost + cost, Applied(state.plan, condition, free, kept))

    def _greedy(self) -> tuple[float, Plan] | None:
        """Join the cheapest pair until one remains; for long chains without conditions."""
        if self.conditions:
            return None
        states = [(1 << n, self._start(n)) for n in range(len(self.leaves))]
        while len(states) > 1:
            cheapest = min(self._pairs(states), key=lambda pair: pair[0], default=None)
            if cheapest is None:
                return None
            _, i, j, mask, state = cheapest
            states = [s for n, s in enumerate(states) if n not in (i, j)] + [(mask, state)]
        return states[0][1].cost, states[0][1].plan

    def _pairs(
        self, states: list[tuple[int, _State]]
    ) -> Iterator[tuple[float, int, int, int, _State]]:
        for i, (one, lhs) in enumerate(states):
            for j in range(i + 1, len(states)):
                other, rhs = states[j]
                joined = self._joined(one | other, 0, lhs, rhs)
                if joined is not None and lhs.plan.labels & rhs.plan.labels:
                    state = joined[1]
                    yield state.cost - lhs.cost - rhs.cost, i, j, one | other, state


# ------------------------------------------------------------------------- forms of equations


@dataclass(frozen=True)
class Slide:
    """Roles of a convolution's labels.

    Attributes:
        data, tap, result: labels.
        transposed: ``result = stride * data + dilation * tap - pad`` rather than ``data = stride *
            result + dilation * tap - pad``.
        stride, dilation, pad: the numbers; a negative dilation reads the weight backwards.
    """

    data: int
    tap: int
    result: int
    transposed: bool
    stride: int
    dilation: int
    pad: int


def slide_roles(
    equation: Equation, free: frozenset[int], a: frozenset[int], b: frozenset[int], size: object
) -> Slide | None:
    """Return the roles of an equation that joins tensors with the labels `a` and `b`.

    The smaller of the two labels is the weight's.
    """
    assert callable(size)
    (one,), (other,) = (equation.labels - free) & a, (equation.labels - free) & b
    (result,) = equation.labels - free - {one, other}
    pairs = [(one, other), (other, one)]
    pairs.sort(key=lambda pair: size(pair[1]))
    for data, tap in pairs:
        for transposed, unit in ((False, data), (True, result)):
            if abs(equation.factor(unit)) != 1:
                continue
            sign = -equation.factor(unit)
            moving = data if transposed else result
            stride = sign * equation.factor(moving)
            if stride > 0:
                return Slide(
                    data,
                    tap,
                    result,
                    transposed,
                    stride,
                    sign * equation.factor(tap),
                    -sign * equation.constant,
                )
        if free and equation.factor(data) * equation.factor(result) < 0:
            return Slide(data, tap, result, False, 0, 0, 0)  # in phases alone
    return None


def is_window(
    equation: Equation, source: int, result: int, free: frozenset[int], size: object
) -> bool:
    """Tell whether an equation is a slice, padding, a window's sum or an upsampling."""
    assert callable(size)
    if len(free) > 1:
        return False
    if abs(equation.factor(source)) == 1:
        sign = -equation.factor(source)
        steps = [sign * factor for label, factor in equation.without(source)]
        return all(step > 0 for step in steps)
    if abs(equation.factor(result)) != 1 or not free:
        return False
    sign = -equation.factor(result)
    (tap,) = free
    return (
        sign * equation.factor(tap) == 1
        and sign * equation.factor(source) == size(tap)
        and sign * equation.constant <= 0
    )


def _only(labels: frozenset[int]) -> int | None:
    return next(iter(labels), None)
