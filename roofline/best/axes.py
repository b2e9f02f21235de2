"""Sizes of a traced program that may vary together.

Each dimension of each tensor is a product of atoms, the slowest first. Operators tie atoms: a
product ties the dimension that it sums over, a view splits a dimension into factors, a convolution
makes the size of its result a function of others. What ties are not known keeps its sizes. So the
program runs at other, smaller sizes: every free atom gets one of its own, and equations are kept.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from solkit.roofline.best.graph import NoPlanError

Dim = tuple[int, ...]
Dims = tuple[Dim, ...]
Sizes = Mapping[int, int]
"""The size of each atom."""

_PRIMES = (2, 3, 5, 7, 11, 13)


class MismatchError(Exception):
    """Two dimensions have no common factors in order."""


def size_of(dim: Sequence[int], sizes: Sizes) -> int:
    """Return the size of a product of atoms."""
    return math.prod(sizes[atom] for atom in dim)


@dataclass(frozen=True)
class _Derived:
    """A dimension whose size is a function of those of others."""

    dim: Dim
    operands: tuple[Dim, ...]
    function: Callable[..., int]


@dataclass
class Axes:
    """Atoms of a program; see the module.

    Attributes:
        sizes: as traced.
        tied: numbers of atoms that equal another one, which has the smaller number.
        parts: atoms that are a product of others.
    """

    sizes: dict[int, int] = field(default_factory=dict)
    tied: dict[int, int] = field(default_factory=dict)
    parts: dict[int, tuple[int, int]] = field(default_factory=dict)
    _fixed: list[Dim] = field(default_factory=list)
    _derived: list[_Derived] = field(default_factory=list)

    def atom(self, size: int) -> int:
        """Return a new atom."""
        number = len(self.sizes)
        self.sizes[number] = size
        return number

    def dim(self, size: int) -> Dim:
        """Return a dimension of one new atom; of none if its size is 1."""
        return () if size == 1 else (self.atom(size),)

    def resolved(self, dim: Sequence[int]) -> Dim:
        """Return a dimension in today's finest atoms."""
        return tuple(leaf for atom in dim for leaf in self._leaves(atom))

    def _leaves(self, atom: int) -> Iterator[int]:
        while atom in self.tied:
            atom = self.tied[atom]
        if atom in self.parts:
            for part in self.parts[atom]:
                yield from self._leaves(part)
        else:
            yield atom

    def size(self, dim: Sequence[int]) -> int:
        """Return the traced size of a dimension."""
        return size_of(dim, self.sizes)

    def tie(self, one: Sequence[int], other: Sequence[int]) -> None:
        """Make two dimensions of equal size the same.

        Raises:
            MismatchError: their factors do not match.
        """
        while True:
            lhs, rhs = self.resolved(one), self.resolved(other)
            at = next((n for n, (a, b) in enumerate(zip(lhs, rhs)) if a != b), None)
            if at is None:
                if len(lhs) != len(rhs):
                    raise MismatchError
                return
            a, b = lhs[at], rhs[at]
            if self.sizes[a] == self.sizes[b]:
                rules = self._rule_of(a), self._rule_of(b)
                self.tied[max(a, b)] = min(a, b)
                self._tie_operands(*rules)
            elif self.sizes[a] > self.sizes[b]:
                self.split(a, self.sizes[b])
            else:
                self.split(b, self.sizes[a])

    def _rule_of(self, atom: int) -> _Derived | None:
        return next((rule for rule in self._derived if self.resolved(rule.dim) == (atom,)), None)

    def _tie_operands(self, one: _Derived | None, other: _Derived | None) -> None:
        """Tie what two equal dimensions are made of in the same way, as the parts of joined ones.

        Raises:
            MismatchError: their factors do not match.
        """
        if one is None or other is None or one.function is not other.function:
            return
        if [*map(self.size, one.operands)] == [*map(self.size, other.operands)]:
            for lhs, rhs in zip(one.operands, other.operands):
                self.tie(lhs, rhs)

    def split(self, atom: int, first: int) -> None:
        """Make an atom a product, the slower factor of the size `first`.

        Raises:
            MismatchError: it is none.
        """
        if first in (0, 1) or self.sizes[atom] % first:
            raise MismatchError
        self.parts[atom] = self.atom(first), self.atom(self.sizes[atom] // first)

    def regrouped(self, dims: Sequence[Sequence[int]], shape: Sequence[int]) -> Dims | None:
        """Return the dimensions of a view; ``None`` if its factors do not match."""
        groups: list[Dim] = []
        consumed: list[int] = []
        for size in shape:
            group: list[int] = []
            have = 1
            while have < size:
                flat = self.resolved([atom for dim in dims for atom in dim])
                used = len(self.resolved(consumed))
                if used >= len(flat):
                    return None
                atom = flat[used]
                missing = size // have
                if size % have:
                    return None
                if missing % self.sizes[atom]:
                    try:
                        self.split(atom, missing)
                    except MismatchError:
                        return None
                    continue
                group.append(atom)
                consumed.append(atom)
                have *= self.sizes[atom]
            groups.append(tuple(group))
        return tuple(groups)

    def fix(self, *dims: Sequence[int]) -> None:
        """Keep the traced size of dimensions."""
        self._fixed += [tuple(dim) for dim in dims]

    def is_fixed(self, dim: Sequence[int]) -> bool:
        """Tell whether a dimension keeps its traced size."""
        return self._fixed_leaves().issuperset(self.resolved(dim))

    def _fixed_leaves(self) -> set[int]:
        return {leaf for dim in self._fixed for leaf in self.resolved(dim)}

    def derive(self, dim: Dim, function: Callable[..., int], *operands: Dim) -> None:
        """Note that the size of a dimension is a function of the sizes of others."""
        self._derived.append(_Derived(dim, operands, function))

    # ------------------------------------------------------------------------ other sizes

    def other_sizes(self, generator: random.Random) -> Sizes:
        """Return sizes of the finest atoms, as far as possible small, prime and different.

        Raises:
            NoPlanError: none was found that keeps every equation.
        """
        leaves = sorted({leaf for atom in self.sizes for leaf in self._leaves(atom)})
        fixed = self._fixed_leaves()
        windows = {
            leaf for rule in self._derived for dim in rule.operands for leaf in self.resolved(dim)
        }
        results = {leaf for rule in self._derived for leaf in self.resolved(rule.dim)}
        for attempt in range(400):
            sizes = {leaf: self.sizes[leaf] for leaf in fixed}
            primes = list(_PRIMES)
            generator.shuffle(primes)
            for count, leaf in enumerate(n for n in leaves if n not in fixed | results | windows):
                sizes[leaf] = min(primes[count % len(primes)], self.sizes[leaf])
            wide = list(range(4, 14 + attempt // 4))
            for leaf in sorted(windows - fixed - results):
                sizes[leaf] = min(generator.choice(wide), self.sizes[leaf])
            if self._keeps_equations(sizes, generator):
                return {leaf: sizes.get(leaf, self.sizes[leaf]) for leaf in leaves}
        raise NoPlanError("no smaller sizes fit its windows")

    def _keeps_equations(self, sizes: dict[int, int], generator: random.Random) -> bool:
        """Complete sizes by the equations; tell whether all hold."""
        for rule in self._derived:
            for operand in rule.operands:
                for leaf in self.resolved(operand):
                    sizes.setdefault(leaf, min(generator.randrange(4, 14), self.sizes[leaf]))
            want = rule.function(*(size_of(self.resolved(o), sizes) for o in rule.operands))
            dim = self.resolved(rule.dim)
            unknown = [leaf for leaf in dim if leaf not in sizes]
            have = math.prod(sizes[leaf] for leaf in dim if leaf in sizes)
            if want < 1 or want % have:
                return False
            for leaf in unknown[1:]:
                sizes[leaf] = 1
            if unknown:
                sizes[unknown[0]] = want // have
                continue
            if want != have:
                return False
        return True
