"""Factorisations and solvers: operation counts of the leading terms, per matrix.

Sources: E. Anderson and others, "LAPACK Working Note 41: Installation Guide for LAPACK" (1992),
appendix C, for LU, Cholesky, inverses, QR and the reductions to condensed form; what iterates
behind a reduction is left out. Where the Gram matrix AᵀA gives the same for fewer operations (R
of a QR, singular values), that is what counts. Blocked forms spend nearly all of it in matrix
products, so all of it is a contraction.

Notation: a matrix is m x n; k right-hand sides. A = LU takes 2/3 n³ operations, A = LLᵀ
n³/3.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from solkit.roofline.work.costs._base import Cost, contraction, rule, scalar
from solkit.roofline.work.program import TensorUse, TracedOp

_Count = Callable[[int, int], float]
"""Operations of an m x n matrix."""


def _per_matrix(a: TensorUse, operations: float) -> Cost:
    """Count `operations` for each matrix of a batch; a multiply-add is two of them."""
    batch = math.prod(a.shape[:-2])
    return contraction(a, math.floor(batch * operations / 2 + 1e-6))  # sums of thirds


def _lu_of(m: int, n: int) -> float:
    """Twice the sum over s = min(m, n) pivots p of (m - p)(n - p): m n s - (m + n) s²/2 + s³/3."""
    s = min(m, n)
    return 2 * (m * n * s - (m + n) * s * s / 2 + s**3 / 3)


def _inverse_of(_: int, n: int) -> float:
    return 2 * n**3


def _cholesky_of(_: int, n: int) -> float:
    return n**3 / 3


def _cholesky_inverse_of(_: int, n: int) -> float:
    return 2 * n**3 / 3


def _hessenberg_of(_: int, n: int) -> float:
    """Eigenvalues of any matrix: its reduction to Hessenberg form; the iteration is left out."""
    return 10 * n**3 / 3


def _exponential_of(_: int, n: int) -> float:
    """Count one product, A²: how many more depends on the norm."""
    return 2 * n**3


_FACTORISATIONS: dict[str, _Count] = {
    "lu": _lu_of,
    "inverse": _inverse_of,
    "cholesky": _cholesky_of,
    "cholesky inverse": _cholesky_inverse_of,
    "hessenberg": _hessenberg_of,
    "matrix exponential": _exponential_of,
}


@rule(*_FACTORISATIONS)
def _factorisation(op: TracedOp) -> Cost:
    """Return the cost of factorising the matrix alone."""
    a = op.inputs[0]
    m, n = a.shape[-2:]
    return _per_matrix(a, _FACTORISATIONS[op.operator.cost](m, n))


@rule("solve")
def _solve(op: TracedOp) -> Cost:
    """Return an LU factorisation, then two triangular solves of n² k each."""
    a, n = op.arguments["A"], op.arguments["A"].shape[-1]
    return _per_matrix(a, _lu_of(n, n)) + contraction(a, op.result.numel * n)


@rule("solve factorised")
def _solve_factorised(op: TracedOp) -> Cost:
    """Count two triangular solves of n² k each."""
    return contraction(op.inputs[0], op.result.numel * op.result.shape[-2])


@rule("solve triangular")
def _solve_triangular(op: TracedOp) -> Cost:
    """Count one triangular solve: n (n - 1) / 2 multiply-adds for each of k columns."""
    right = op.arguments.get("right") or op.arguments.get("left") is not False
    n = op.result.shape[-2] if right else op.result.shape[-1]
    return contraction(op.inputs[0], op.result.numel * (n - 1) // 2)


@rule("qr")
def _qr(op: TracedOp) -> Cost:
    """R from the Gram matrix: m n² + n³/3; Q = A R⁻¹: m n². Wide matrices: of the square part."""
    a = op.inputs[0]
    m, n = a.shape[-2], min(a.shape[-2:])
    wanted_q = op.arguments.get("mode", "reduced") != "r"
    rest = 2 * m * m * (a.shape[-1] - n)  # Qᵀ times the columns beyond
    return _per_matrix(a, (2 if wanted_q else 1) * m * n * n + n**3 / 3 + rest)


@rule("householder")
def _householder(op: TracedOp) -> Cost:
    """Householder's QR: 2 m n² - 2/3 n³ for m >= n."""
    a = op.inputs[0]
    tall, short = max(a.shape[-2:]), min(a.shape[-2:])
    return _per_matrix(a, 2 * tall * short**2 - 2 * short**3 / 3)


@rule("householder product")
def _householder_product(op: TracedOp) -> Cost:
    """Q from k reflectors: 4 m n k - 2 (m + n) k² + 4/3 k³."""
    a, k = op.inputs[0], op.inputs[1].shape[-1]
    m, n = a.shape[-2:]
    return _per_matrix(a, 4 * m * n * k - 2 * (m + n) * k * k + 4 * k**3 / 3)


@rule("apply householder")
def _apply_householder(op: TracedOp) -> Cost:
    """Q of k reflectors of length m, applied to n vectors: 4 m n k - 2 n k²."""
    k, other = op.inputs[1].shape[-1], op.result
    m = op.inputs[0].shape[-2]
    n = other.shape[-1] if op.arguments.get("left", True) else other.shape[-2]
    return _per_matrix(other, max(4 * m * n * k - 2 * n * k * k, 0))


@rule("eigh")
def _eigh(op: TracedOp) -> Cost:
    """Reduction to tridiagonal form: 4/3 n³.

    Of fake tensors torch asks for eigenvectors even where nobody reads them: they are left out.
    """
    a = op.inputs[0]
    return _per_matrix(a, 4 / 3 * a.shape[-1] ** 3)


@rule("svd")
def _svd(op: TracedOp) -> Cost:
    """Gram matrix m n² and its eigenvalues 4/3 n³; vectors are left out, as in `_eigh`."""
    a = op.inputs[0]
    m, n = max(a.shape[-2:]), min(a.shape[-2:])
    return _per_matrix(a, m * n * n + 4 / 3 * n**3)


@rule("least squares")
def _least_squares(op: TracedOp) -> Cost:
    """Solve normal equations: m n² + n³/3, and for each right-hand side Aᵀb and two solves."""
    a = op.inputs[0]
    m, n = max(a.shape[-2:]), min(a.shape[-2:])
    sides = op.result.shape[-1]
    return _per_matrix(a, m * n * n + n**3 / 3 + 2 * m * n * sides + 2 * n * n * sides)


@rule("pseudoinverse")
def _pseudoinverse(op: TracedOp) -> Cost:
    """Solve normal equations, with two solves for each of m right-hand sides."""
    a = op.inputs[0]
    m, n = max(a.shape[-2:]), min(a.shape[-2:])
    return _per_matrix(a, m * n * n + n**3 / 3 + 2 * n * n * m)


@rule("linear combination")
def _linear_combination(op: TracedOp) -> Cost:
    """Return a multiply-add per term."""
    return scalar(op.result, 2 * op.result.distinct * op.inputs[1].shape[-1])
