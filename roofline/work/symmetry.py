"""Products whose result equals its own transpose: one triangle of it says the other.

``X Xᵀ`` is symmetric, and so is what elementwise functions, sums and conversions make of symmetric
matrices. Polynomials of one symmetric matrix commute, so their products are symmetric too: the
square of a Gram matrix, as in the iteration of Newton and Schulz.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from solkit.ops import Family
from solkit.roofline.work.products import is_gram
from solkit.roofline.work.program import Program, TensorUse, TracedOp

_ANY = -1  # a multiple of the identity commutes with every matrix
_FUNCTIONS = ("inverse", "matrix exponential", "pseudoinverse")
"""Functions of a matrix that commute with it, by `Operator.cost`."""


def with_symmetry(program: Program) -> Program:
    """Return the program, its products marked whose result is symmetric."""
    symmetry = _Symmetry(program.symmetric)
    return replace(program, ops=tuple(symmetry.marked(op) for op in program.ops))


def symmetric_storages(ops: Sequence[TracedOp]) -> set[int]:
    """Return storages that hold symmetric matrices behind the last op."""
    symmetry = _Symmetry(frozenset())
    for op in ops:
        symmetry.marked(op)
    return set(symmetry.roots)


class _Symmetry:
    """Symmetric matrices at one point of a program.

    Attributes:
        roots: by storage, the matrix of which its matrices are polynomials.

    Args:
        arguments: storages of arguments that are symmetric in every draw.
    """

    def __init__(self, arguments: frozenset[int]) -> None:
        self.roots: dict[int, int] = {storage: storage for storage in arguments}
        self._made: dict[int, TensorUse] = {}

    def marked(self, op: TracedOp) -> TracedOp:
        """Return the op, marked if its result is symmetric; remember that."""
        root = self._root_of_result(op)
        for use in op.written:
            self.roots.pop(use.storage, None)
            self._made.pop(use.storage, None)
        if root is None or op.written:
            return op
        self.roots[op.result.storage] = root
        self._made[op.result.storage] = op.result
        is_product = op.operator.family is Family.PRODUCT
        return replace(op, is_symmetric=True) if is_product else op

    def _root_of_result(self, op: TracedOp) -> int | None:
        """Return the matrix of which an op makes a polynomial; ``None`` if it is not symmetric."""
        if not op.inputs or len(op.outputs) != 1 or not _is_square(op.result):
            return None
        record, own = op.operator, op.result.storage
        if record.factors and record.family is Family.PRODUCT:
            return self._root_of_product(op)
        if record.cost in _FUNCTIONS:
            return self._root(op.inputs[0])
        if not op.is_elementwise or any(use.shape != op.result.shape for use in op.inputs):
            return self._of_transpose(op)
        roots = [self._root(use) for use in op.inputs]
        if None in roots:
            return self._of_transpose(op)
        commuting = {root for root in roots if root != _ANY}
        keeps = record.moves or record.sums or (record.linear and len(op.inputs) == 1)
        if not keeps or len(commuting) > 1 or (record.sums and len(op.inputs) == 1):
            return own
        return commuting.pop() if commuting else own

    def _root_of_product(self, op: TracedOp) -> int | None:
        lhs, rhs = (op.arguments[name] for name in op.operator.factors)
        if is_gram(lhs, rhs):
            root: int | None = op.result.storage
        else:
            roots = {self._root(use) for use in (lhs, rhs)} - {_ANY}
            root = roots.pop() if len(roots) == 1 else None
        added = [use for use in op.inputs if use is not lhs and use is not rhs]
        if root is None or not added or op.arguments.get("beta", 1) == 0:
            return root
        (term,) = added
        other = self._root(term) if term.shape == op.result.shape else None
        if other is None:
            return None
        return root if other in (root, _ANY) else op.result.storage

    def _of_transpose(self, op: TracedOp) -> int | None:
        """Return the result itself where a matrix is added to its own transpose."""
        is_pair = len(op.inputs) == 2 and op.is_elementwise and is_gram(*op.inputs)
        commutes = op.operator.commutes and op.arguments.get("alpha", 1) == 1
        return op.result.storage if is_pair and commutes else None

    def _root(self, use: TensorUse) -> int | None:
        """Return the matrix of which a whole view is a polynomial."""
        if use.value is not None:
            return _ANY if _is_identity(use) else None
        root, whole = self.roots.get(use.storage), self._made.get(use.storage, use)
        if root is None or not _is_square(use):
            return None
        flipped = (*whole.stride[:-2], whole.stride[-1], whole.stride[-2])
        is_whole = use.shape == whole.shape and use.offset == whole.offset
        return root if is_whole and use.stride in (whole.stride, flipped) else None


def _is_square(use: TensorUse) -> bool:
    return len(use.shape) >= 2 and use.shape[-1] == use.shape[-2] > 1


def _is_identity(use: TensorUse) -> bool:
    """Tell whether known values are a multiple of the identity."""
    value = use.value
    if value is None or value.ndim != 2 or value.shape[0] != value.shape[1]:
        return False
    return bool((value == np.where(np.eye(len(value), dtype=bool), value[0, 0], 0)).all())
