"""A Gaussian process over encoded points, its hyperparameters those of greatest posterior density.

Notation: x points (n, columns), z targets (n,), ℓ length scales, s² signal variance, σ² noise.
k(x, x') = s² (1 + r√5 + 5r²/3) exp(−r√5), r² = Σ (x − x')² / ℓ²: Matérn 5/2 with a length scale a
parameter (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 4.2; the
gradient of the marginal likelihood is their equation 5.9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

from solkit.tuner.search.encoding import Array

__all__ = ["Hyper", "Process"]

_ROOT5 = math.sqrt(5.0)
_JITTER = 1e-6
_STEPS = 15  # of the optimiser, which starts where the last fit ended

# Priors of the logarithms, for features from 0 to 1 and targets of variance 1
_LENGTH, _LENGTH_SD = math.log(0.6), 1.0
_SIGNAL, _SIGNAL_SD = 0.0, 1.0
_NOISE, _NOISE_SD = math.log(1e-2), 1.5


@dataclass(frozen=True)
class Hyper:
    """Hyperparameters, as logarithms.

    Attributes:
        values: of the length scales, the signal variance and the noise variance.
    """

    values: Array

    @classmethod
    def default(cls, scales: int) -> Hyper:
        """The middle of the prior."""
        return cls(np.array([_LENGTH] * scales + [_SIGNAL, _NOISE]))

    @property
    def lengths(self) -> Array:
        """The length scales."""
        return np.exp(self.values[:-2])

    @property
    def signal(self) -> float:
        """The signal variance."""
        return float(np.exp(self.values[-2]))

    @property
    def noise(self) -> float:
        """The noise variance."""
        return float(np.exp(self.values[-1])) + _JITTER


def _matern(squared: Array) -> tuple[Array, Array]:
    """Matérn 5/2 of squared distances, and its derivative by the squared distance times −2."""
    root = _ROOT5 * np.sqrt(np.maximum(squared, 0.0))
    fall = np.exp(-root)
    return (1 + root + root * root / 3) * fall, (5 / 3) * (1 + root) * fall


def _squared(a: Array, b: Array) -> Array:
    """Squared distances, (len(a), len(b))."""
    return (a * a).sum(1)[:, None] + (b * b).sum(1)[None] - 2 * a @ b.T


class Process:
    """A Gaussian process given points and targets.

    Args:
        x: points, (n, columns).
        scales: by column, its length scale.
        hyper: hyperparameters.
    """

    def __init__(self, x: Array, scales: Array, hyper: Hyper) -> None:
        self.hyper, self._scales = hyper, scales
        self._scaled = x / hyper.lengths[scales] if len(scales) else x
        kernel = hyper.signal * _matern(_squared(self._scaled, self._scaled))[0]
        kernel[np.diag_indices_from(kernel)] = hyper.signal + hyper.noise
        self._factor = cholesky(kernel, lower=True)

    def against(self, x: Array) -> tuple[Array, Array]:
        """Covariances with points (m, columns), (m, n), and the posterior sd there, (m,)."""
        scaled = x / self.hyper.lengths[self._scales] if len(self._scales) else x
        cross = self.hyper.signal * _matern(_squared(scaled, self._scaled))[0]
        halves = solve_triangular(self._factor, cross.T, lower=True, check_finite=False)
        variance = self.hyper.signal - np.einsum("ij,ij->j", halves, halves)
        return cross, np.sqrt(np.maximum(variance, 1e-9))

    def weights(self, z: Array) -> Array:
        """Of the covariances in the posterior mean, (n,) or (n, targets)."""
        return np.asarray(cho_solve((self._factor, True), z, check_finite=False))


def fitted(x: Array, z: Array, scales: Array, start: Hyper, steps: int = _STEPS) -> Hyper:
    """Hyperparameters at a maximum of the posterior density, found from `start`."""
    count = int(scales.max()) + 1 if len(scales) else 0
    apart = np.zeros((count, len(x), len(x)))
    for column, scale in enumerate(scales):
        apart[scale] += (x[:, None, column] - x[None, :, column]) ** 2
    found = minimize(
        _loss, start.values, (apart, z), "L-BFGS-B", jac=True, options={"maxiter": steps}
    )
    return Hyper(np.asarray(found.x)) if np.isfinite(found.fun) else start


def _loss(values: Array, apart: Array, z: Array) -> tuple[float, Array]:
    """Minus the logarithm of the posterior density, and its gradient."""
    hyper = Hyper(values)
    weights = hyper.lengths**-2.0
    shape, slope = _matern(np.tensordot(weights, apart, 1))
    kernel = hyper.signal * shape
    kernel[np.diag_indices_from(kernel)] += hyper.noise
    try:
        factor = cholesky(kernel, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return 1e9, np.zeros_like(values)
    inverse = cho_solve((factor, True), np.eye(len(z)), check_finite=False)
    alpha = inverse @ z
    outer = inverse - np.outer(alpha, alpha)
    tilted = outer * slope * hyper.signal
    gradient = np.empty_like(values)
    gradient[:-2] = 0.5 * weights * np.tensordot(apart, tilted, 2) if len(apart) else 0.0
    gradient[-2] = 0.5 * hyper.signal * np.vdot(outer, shape)
    gradient[-1] = 0.5 * (hyper.noise - _JITTER) * np.trace(outer)
    middle = np.array([_LENGTH] * len(apart) + [_SIGNAL, _NOISE])
    sd = np.array([_LENGTH_SD] * len(apart) + [_SIGNAL_SD, _NOISE_SD])
    away = (values - middle) / sd
    loss = 0.5 * z @ alpha + np.log(np.diag(factor)).sum() + 0.5 * (away**2).sum()
    return float(loss), gradient + away / sd
