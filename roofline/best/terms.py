"""Sums of products of tensors over labels, with affine equations between labels.

A term is ``factor * sum over all labels that are in no result dimension of the product of its
leaves``, over the points where every equation holds. A convolution is the equation ``i = stride * p
+ dilation * k - padding`` between the labels of its input, weight and result; pooling, padding and
slices likewise. A label stands for an index that runs from 0 to the size of its atom.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from solkit.roofline.best.axes import Sizes

Dim = tuple[int, ...]


@dataclass
class Labels:
    """Atoms of labels.

    Attributes:
        atoms: by label.
    """

    atoms: dict[int, int] = field(default_factory=dict)
    _numbers: Iterable[int] = field(default_factory=itertools.count)

    def new(self, atom: int) -> int:
        """Return a new label over an atom."""
        label = next(iter(self._numbers))
        self.atoms[label] = atom
        return label

    def of_dim(self, dim: Dim) -> Dim:
        """Return new labels for the atoms of a dimension."""
        return tuple(self.new(atom) for atom in dim)

    def size(self, labels: Iterable[int], sizes: Sizes) -> int:
        """Return the number of index tuples."""
        return math.prod(sizes[self.atoms[label]] for label in labels)


@dataclass(frozen=True)
class Leaf:
    """A tensor of a product.

    Attributes:
        value: its number in the graph, or a name that `solkit.roofline.best.ordering` gave.
        labels: one for each atom of its dimensions, in their order.
    """

    value: int | str
    labels: tuple[int, ...]


@dataclass(frozen=True)
class Equation:
    """``sum(factor * label) + constant == 0``."""

    terms: tuple[tuple[int, int], ...]
    constant: int = 0

    @property
    def labels(self) -> frozenset[int]:
        """The labels in it."""
        return frozenset(label for label, _ in self.terms)

    def factor(self, label: int) -> int:
        """Return the factor of a label."""
        return next(factor for other, factor in self.terms if other == label)

    def without(self, *labels: int) -> tuple[tuple[int, int], ...]:
        """Return its terms without those of some labels."""
        return tuple(term for term in self.terms if term[0] not in labels)


@dataclass(frozen=True)
class Triangle:
    """A lower triangle, ``column <= row + diagonal``; an upper one has its labels exchanged."""

    row: int
    column: int
    diagonal: int = 0


@dataclass(frozen=True)
class Term:
    """A product, summed; see the module.

    Attributes:
        factor: a number.
        powers: atoms whose sizes multiply (positive) or divide (negative) it.
        leaves: its tensors.
        equations, triangles: conditions on its labels.
        dims: labels of each dimension of the result; one that no leaf has repeats the result.
    """

    factor: float = 1.0
    powers: tuple[tuple[int, int], ...] = ()
    leaves: tuple[Leaf, ...] = ()
    equations: tuple[Equation, ...] = ()
    triangles: tuple[Triangle, ...] = ()
    dims: tuple[Dim, ...] = ()

    def renamed(self, names: Mapping[int, int]) -> Term:
        """Return the term with other labels."""

        def dim(labels: Dim) -> Dim:
            return tuple(names.get(label, label) for label in labels)

        return replace(
            self,
            leaves=tuple(replace(leaf, labels=dim(leaf.labels)) for leaf in self.leaves),
            equations=tuple(
                Equation(tuple((names.get(n, n), c) for n, c in eq.terms), eq.constant)
                for eq in self.equations
            ),
            triangles=tuple(
                Triangle(names.get(t.row, t.row), names.get(t.column, t.column), t.diagonal)
                for t in self.triangles
            ),
            dims=tuple(map(dim, self.dims)),
        )

    @property
    def bound_labels(self) -> frozenset[int]:
        """Labels of leaves and conditions."""
        labels = {label for leaf in self.leaves for label in leaf.labels}
        for equation in self.equations:
            labels |= equation.labels
        for triangle in self.triangles:
            labels |= {triangle.row, triangle.column}
        return frozenset(labels)

    @property
    def results(self) -> frozenset[int]:
        """Labels of the result."""
        return frozenset(label for dim in self.dims for label in dim)

    def fresh(self, labels: Labels) -> Term:
        """Return the term with new labels."""
        names = {n: labels.new(labels.atoms[n]) for n in self.bound_labels | self.results}
        return self.renamed(names)

    def scaled(self, factor: float, powers: Iterable[tuple[int, int]] = ()) -> Term:
        """Return the term times a number."""
        return replace(
            self, factor=self.factor * factor, powers=_sum_powers((*self.powers, *powers))
        )

    def times(self, other: Term, dims: tuple[Dim, ...]) -> Term:
        """Return the product of two terms, whose labels do not clash, with dimensions."""
        return Term(
            self.factor * other.factor,
            _sum_powers((*self.powers, *other.powers)),
            (*self.leaves, *other.leaves),
            (*self.equations, *other.equations),
            (*self.triangles, *other.triangles),
            dims,
        )

    def summed(self, labels: Labels, gone: Iterable[int], dims: tuple[Dim, ...]) -> Term:
        """Return the term with dimensions that lack the labels `gone`.

        A label that only repeated the result multiplies it by its size.
        """
        term = replace(self, dims=dims)
        kept = term.bound_labels | term.results
        repeats = [(labels.atoms[label], 1) for label in set(gone) if label not in kept]
        return term.scaled(1.0, repeats)


def _sum_powers(powers: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    total: dict[int, int] = {}
    for atom, power in powers:
        total[atom] = total.get(atom, 0) + power
    return tuple(sorted((atom, power) for atom, power in total.items() if power))
