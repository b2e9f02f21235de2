"""Fourier transforms.

Notation: n is the length of one transform, lg its binary logarithm.

* n a power of two: 34/9 n lg n - 124/27 n - 2 lg n - 2/9 (-1)^lg n lg n + 16/27 (-1)^lg n + 8 real
  operations, the fewest known: S. G. Johnson and M. Frigo, "A modified split-radix FFT with fewer
  arithmetic operations", IEEE Trans. Signal Processing 55 (2007), table I and equation (1). (The
  5 n lg n of benchmarks is that of a radix-2 transform.)
* other lengths, primes too: n lg n. A linear algorithm whose factors are no larger than 1 needs
  n/2 lg n complex additions: J. Morgenstern, "Note on a lower bound on the linear complexity of
  the fast Fourier transform", J. ACM 20 (1973).
* real data, or a real result: half of that less n - 2, as in both references' real forms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from solkit.roofline.work.costs._base import Cost, rule, scalar
from solkit.roofline.work.program import TensorUse, TracedOp


def _complex_transform(n: int) -> float:
    """Real operations of one complex transform of length n."""
    if n < 2:
        return 0.0
    lg = math.log2(n)
    if n & (n - 1):
        return n * lg
    sign = -1 if int(lg) % 2 else 1
    return 34 / 9 * n * lg - 124 / 27 * n - 2 * lg - sign * (2 / 9 * lg - 16 / 27) + 8


def _real_transform(n: int) -> float:
    """Real operations of one transform of n real numbers."""
    return max(_complex_transform(n) / 2 - n + 2, 0.0)


def _transforms(shape: Sequence[int], dims: Sequence[int]) -> float:
    """Complex transforms along each of `dims` in turn."""
    whole = math.prod(shape)
    return sum(whole / max(shape[d], 1) * _complex_transform(shape[d]) for d in dims)


@rule("complex transform")
def _complex_to_complex(op: TracedOp) -> Cost:
    """Return a complex transform along each dimension."""
    return _share_of(op, op.inputs[0], _transforms(op.inputs[0].shape, op.arguments["dim"]))


@rule("real transform")
def _real_to_complex(op: TracedOp) -> Cost:
    """Transform real values along the last dimension, half the columns along the others."""
    x = op.inputs[0]
    return _share_of(op, x, real_transforms(x.shape, op.arguments["dim"]))


@rule("inverse real transform")
def _complex_to_real(op: TracedOp) -> Cost:
    """Return the inverse: as many operations as the real result's transform."""
    return _share_of(op, op.result, real_transforms(op.result.shape, op.arguments["dim"]))


def real_transforms(shape: Sequence[int], dims: Sequence[int]) -> float:
    """Return real operations of the transforms of real data along each of `dims`."""
    *others, last = dims
    rows = math.prod(shape) / max(shape[last], 1)
    return rows * _real_transform(shape[last]) + _transforms(shape, others) / 2


def _share_of(op: TracedOp, like: TensorUse, operations: float) -> Cost:
    """Count k/n of the operations for k live ones among n results: no fewer are needed."""
    share = op.result.distinct / max(op.result.numel, 1)
    return scalar(like, math.floor(operations * share + 1e-6))  # sums of thirds and ninths
