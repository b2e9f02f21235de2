"""Simplifications of terms that hold for all values.

Sizes are those of the trace: whether an equation always has a solution depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from solkit.roofline.best.axes import Axes
from solkit.roofline.best.terms import Equation, Labels, Leaf, Term


def simplified(term: Term, labels: Labels, axes: Axes, normalised: Mapping[int, int]) -> Term:
    """Return a term with fewer equations and leaves; the number 0 if no indices solve them.

    Args:
        term: to simplify.
        labels: its labels; boxes get new ones.
        axes: the sizes.
        normalised: values that sum to one over a dimension, e.g. of a softmax, with the place of
            its label in the leaf.
    """
    while (simpler := _step(term, labels, axes, normalised)) is not None:
        term = simpler
    if any(_never_solved(equation, labels, axes) for equation in term.equations):
        return replace(term, factor=0.0, leaves=(), equations=())
    return _boxes_first(term, labels, axes)


def _step(term: Term, labels: Labels, axes: Axes, normalised: Mapping[int, int]) -> Term | None:
    for leaf in term.leaves:
        if (dropped := _without_normalised(term, leaf, labels, normalised)) is not None:
            return dropped
    used = {label for leaf in term.leaves for label in leaf.labels} | term.results
    used |= {n for t in term.triangles for n in (t.row, t.column)}
    for equation in term.equations:
        if (tied := _tied(term, equation, labels)) is not None:
            return tied
    for equation in term.equations:
        for label in equation.labels - used:
            if abs(equation.factor(label)) != 1:
                continue
            others = [eq for eq in term.equations if eq is not equation and label in eq.labels]
            if not others and _always_solved(equation, label, labels, axes):
                kept = tuple(eq for eq in term.equations if eq is not equation)
                return _with_equations(term, kept, labels, label)
            if len(others) == 1:
                other = others[0]
                implied = _always_solved(equation, label, labels, axes) or (
                    abs(other.factor(label)) == 1 and _always_solved(other, label, labels, axes)
                )
                if implied:
                    whole = _substituted(equation, other, label)
                    kept = tuple(eq for eq in term.equations if eq not in (equation, other))
                    return _with_equations(term, (*kept, whole), labels, label)
    return None


def _with_equations(
    term: Term, equations: tuple[Equation, ...], labels: Labels, solved: int
) -> Term:
    """Return the term with other equations, of which one gave the label `solved` its value.

    Any other label that is now in none was only counted.
    """
    changed = replace(term, equations=equations)
    kept = changed.bound_labels | changed.results | {solved}
    lost = {label for eq in term.equations for label in eq.labels} - kept
    return changed.scaled(1.0, [(labels.atoms[label], 1) for label in lost])


def _without_normalised(
    term: Term, leaf: Leaf, labels: Labels, normalised: Mapping[int, int]
) -> Term | None:
    """Return the term without a leaf that is summed over the dimension where it sums to one."""
    if not isinstance(leaf.value, int) or leaf.value not in normalised:
        return None
    label = leaf.labels[normalised[leaf.value]]
    others = tuple(other for other in term.leaves if other is not leaf)
    rest = replace(term, leaves=others)
    if leaf.labels.count(label) > 1 or label in rest.bound_labels | rest.results:
        return None
    kept = rest.bound_labels | rest.results
    counted = [(labels.atoms[n], 1) for n in set(leaf.labels) - kept - {label}]
    return rest.scaled(1.0, counted)


def _tied(term: Term, equation: Equation, labels: Labels) -> Term | None:
    """Return the term with one label for both of an equation ``i == p``."""
    if len(equation.terms) != 2 or equation.constant:
        return None
    (one, a), (other, b) = equation.terms
    if a != -b or abs(a) != 1 or labels.atoms[one] != labels.atoms[other] or one == other:
        return None
    rest = replace(term, equations=tuple(eq for eq in term.equations if eq is not equation))
    return rest.renamed({one: other})


def span(terms: Sequence[tuple[int, int]], labels: Labels, axes: Axes) -> tuple[int, int]:
    """Return the least and the largest sum of factors times labels."""
    ends = [factor * (axes.sizes[labels.atoms[label]] - 1) for label, factor in terms]
    return sum(min(0, end) for end in ends), sum(max(0, end) for end in ends)


def _always_solved(equation: Equation, label: int, labels: Labels, axes: Axes) -> bool:
    """Tell whether a label has a value for all values of the others."""
    sign = -equation.factor(label)
    rest = [(other, sign * factor) for other, factor in equation.without(label)]
    low, high = span(rest, labels, axes)
    constant = sign * equation.constant
    return low + constant >= 0 and high + constant < axes.sizes[labels.atoms[label]]


def _never_solved(equation: Equation, labels: Labels, axes: Axes) -> bool:
    """Tell whether no values of the labels solve an equation: parts of a joined tensor differ."""
    low, high = span(equation.terms, labels, axes)
    return not low <= -equation.constant <= high


def _substituted(equation: Equation, other: Equation, label: int) -> Equation:
    """Return `other` with the label's value from `equation`, in which its factor is 1 or -1."""
    scale = -equation.factor(label) * other.factor(label)
    factors: dict[int, int] = dict(other.without(label))
    for name, factor in equation.without(label):
        factors[name] = factors.get(name, 0) + scale * factor
    terms = tuple((name, factor) for name, factor in factors.items() if factor)
    return Equation(terms, other.constant + scale * equation.constant)


def free_labels(term: Term, equation: Equation) -> frozenset[int]:
    """Return the labels of an equation that occur nowhere else."""
    others = replace(term, equations=tuple(eq for eq in term.equations if eq is not equation))
    return equation.labels - others.bound_labels - others.results


def _boxes_first(term: Term, labels: Labels, axes: Axes) -> Term:
    """Return the term with windows summed before they are convolved.

    ``i = s * p + d * k + e * r - c`` with a free ``r`` (a pooled convolution) becomes ``i = j + e *
    r + constant`` (a box filter) and ``j = s * p + d * k``.
    """
    in_leaves = {label for leaf in term.leaves for label in leaf.labels}
    for equation in term.equations:
        free = free_labels(term, equation)
        bound = equation.labels - free
        if len(free) != 1 or len(bound) < 3:
            continue
        units = [n for n in bound & in_leaves if abs(equation.factor(n)) == 1]
        if not units:
            continue
        data = max(units, key=lambda n: (axes.sizes[labels.atoms[n]], n))
        (box,) = free
        sign = -equation.factor(data)
        rest = [(n, sign * f) for n, f in equation.without(data, box)]
        if any(f < 0 for _, f in rest):
            continue
        low, high = span(rest, labels, axes)
        atom = axes.atom(high - low + 1)
        factors = tuple(f for _, f in rest)
        axes.derive(
            (atom,),
            lambda *sizes, factors=factors: 1 + sum(f * (n - 1) for f, n in zip(factors, sizes)),
            *((labels.atoms[n],) for n, _ in rest),
        )
        middle = labels.new(atom)
        filtered = Equation(
            ((data, -1), (middle, 1), (box, sign * equation.factor(box))), sign * equation.constant
        )
        slid = Equation(((middle, -1), *rest))
        kept = tuple(eq for eq in term.equations if eq is not equation)
        return _boxes_first(replace(term, equations=(*kept, filtered, slid)), labels, axes)
    return term


def canonical(term: Term) -> tuple[object, ...]:
    """Return a key that equal products share, whatever their factors and names of labels."""
    names: dict[int, int] = {}

    def name(label: int) -> int:
        return names.setdefault(label, len(names))

    dims = tuple(tuple(map(name, dim)) for dim in term.dims)
    order = sorted(term.leaves, key=lambda leaf: (str(leaf.value), _seen(leaf, names)))
    leaves = tuple((leaf.value, tuple(map(name, leaf.labels))) for leaf in order)
    equations = tuple(
        sorted(
            (tuple(sorted((name(n), f) for n, f in eq.terms)), eq.constant) for eq in term.equations
        )
    )
    triangles = tuple(sorted((name(t.row), name(t.column), t.diagonal) for t in term.triangles))
    return dims, leaves, equations, triangles


def _seen(leaf: Leaf, names: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(names.get(label, len(names)) for label in leaf.labels)


def merged_terms(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Return the terms with equal products added; those that cancel are gone."""
    first: dict[object, Term] = {}
    factors: dict[object, float] = {}
    for term in terms:
        key = (canonical(term), term.powers)
        first.setdefault(key, term)
        factors[key] = factors.get(key, 0.0) + term.factor
    return tuple(
        replace(term, factor=factors[key]) for key, term in first.items() if factors[key] != 0.0
    )
