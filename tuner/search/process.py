"""A Gaussian process over encoded points, its hyperparameters those of greatest posterior density.

Notation: x features (n, columns), u linear columns (n, terms), z targets (n,), ℓ length scales, s²
signal variance, τ² variances of linear coefficients, σ² noise.
k(x, x') = s² (1 + r√5 + 5r²/3) exp(−r√5) + Σ τ² u u', r² = Σ (x − x')² / ℓ²: Matérn 5/2 with a
length scale a parameter, and a Bayesian linear model of what is believed beforehand (Rasmussen and
Williams, Gaussian Processes for Machine Learning, 2006, sections 2.7 and 4.2; the gradient of the
marginal likelihood is their equation 5.9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize

from solkit.tuner.search.encoding import Array

__all__ = ["Hyper", "Inputs", "Posterior", "fitted"]

_ROOT5 = math.sqrt(5.0)
_JITTER = 1e-6
_STEPS = 15  # of the optimiser, which starts where the last fit ended

# Priors of the logarithms, for features from 0 to 1 and targets of variance 1
_LENGTH, _LENGTH_SD = math.log(0.6), 1.0
_LINEAR, _LINEAR_SD = math.log(0.3), 1.0
_SIGNAL, _SIGNAL_SD = 0.0, 1.0
_NOISE, _NOISE_SD = math.log(1e-2), 1.5


@dataclass(frozen=True)
class Inputs:
    """Points as a process sees them.

    Attributes:
        x: features, (points, columns).
        u: linear columns, (points, terms).
    """

    x: Array
    u: Array

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, at: Array) -> Inputs:
        return Inputs(self.x[at], self.u[at])

    def joined(self, other: Inputs) -> Inputs:
        """Both, these first."""
        return Inputs(np.vstack([self.x, other.x]), np.vstack([self.u, other.u]))


@dataclass(frozen=True)
class Hyper:
    """Hyperparameters, as logarithms.

    Attributes:
        values: of ℓ (scales), τ² (terms), s² and σ².
        scales: how many length scales there are.
    """

    values: Array
    scales: int

    @classmethod
    def default(cls, scales: int, terms: int) -> Hyper:
        """The middle of the prior."""
        return cls(_middle(scales, terms)[0], scales)

    @property
    def lengths(self) -> Array:
        """The length scales ℓ."""
        return np.exp(self.values[: self.scales])

    @property
    def linear(self) -> Array:
        """The variances τ² of linear coefficients."""
        return np.exp(self.values[self.scales : -2])

    @property
    def signal(self) -> float:
        """The signal variance s²."""
        return float(np.exp(self.values[-2]))

    @property
    def noise(self) -> float:
        """The noise variance σ²."""
        return float(np.exp(self.values[-1])) + _JITTER


def _middle(scales: int, terms: int) -> tuple[Array, Array]:
    """Mean and sd of the prior of a `Hyper`'s values."""
    mean = [_LENGTH] * scales + [_LINEAR] * terms + [_SIGNAL, _NOISE]
    sd = [_LENGTH_SD] * scales + [_LINEAR_SD] * terms + [_SIGNAL_SD, _NOISE_SD]
    return np.array(mean), np.array(sd)


def _matern(squared: Array) -> tuple[Array, Array]:
    """Matérn 5/2 of squared distances, and its derivative by the squared distance times −2."""
    root = _ROOT5 * np.sqrt(np.maximum(squared, 0.0))
    fall = np.exp(-root)
    return (1 + root + root * root / 3) * fall, (5 / 3) * (1 + root) * fall


class _Stack:
    """A matrix that grows by rows."""

    def __init__(self, rows: Array) -> None:
        self._room, self._count = rows, len(rows)

    @property
    def rows(self) -> Array:
        return self._room[: self._count]

    def add(self, row: Array) -> None:
        if self._count == len(self._room):
            more = np.empty((max(16, self._count // 4), self._room.shape[1]))
            self._room = np.vstack([self._room, more])
        self._room[self._count] = row
        self._count += 1


class Posterior:
    """A process given points, seen at a pool of others.

    A point that is added costs O(n (n + m)) for n points and a pool of m.

    Args:
        hyper: hyperparameters.
        by_scale: by column of the features, the number of its length scale.
        given: the points.
        pool: where the posterior is wanted.
    """

    def __init__(self, hyper: Hyper, by_scale: Array, given: Inputs, pool: Inputs) -> None:
        self.hyper = hyper
        self._stretch = 1 / hyper.lengths[by_scale]
        self._given, self._pool = self._stretched(given), self._stretched(pool)
        self.kernel = self._covariance(self._given, self._given)[1]
        self.kernel[np.diag_indices_from(self.kernel)] += hyper.noise
        self._factor = cholesky(self.kernel, lower=True)
        near, cross = self._covariance(self._given, self._pool)
        self._near, self._halves = _Stack(near), _Stack(self._solved(cross))
        self._variance = self._before(self._pool) - _squares(self._halves.rows)

    def add(self, point: Inputs) -> None:
        """Another point that is given."""
        point = self._stretched(point)
        cross = self._covariance(self._given, point)[1][:, 0]
        corner = float(self._before(point)[0]) + self.hyper.noise
        half = self._solved(cross[:, None])[:, 0]
        root = math.sqrt(max(corner - float(half @ half), _JITTER))
        near, there = self._covariance(point, self._pool)
        row = (there[0] - half @ self._halves.rows) / root
        self._near.add(near[0])
        self._halves.add(row)
        self._variance = self._variance - row * row
        self.kernel = np.block([[self.kernel, cross[:, None]], [cross[None], np.array([[corner]])]])
        side = np.zeros((len(cross), 1))
        self._factor = np.block([[self._factor, side], [half[None], np.array([[root]])]])
        self._given = self._given.joined(point)

    def widen(self, points: Inputs) -> None:
        """More points in the pool."""
        points = self._stretched(points)
        near, cross = self._covariance(self._given, points)
        halves = self._solved(cross)
        self._near = _Stack(np.hstack([self._near.rows, near]))
        self._halves = _Stack(np.hstack([self._halves.rows, halves]))
        self._variance = np.concatenate([self._variance, self._before(points) - _squares(halves)])
        self._pool = self._pool.joined(points)

    def mean(self, z: Array) -> Array:
        """The posterior mean at the pool for targets z (n,)."""
        return self._solved(z[:, None])[:, 0] @ self._halves.rows

    @property
    def sd(self) -> Array:
        """The posterior sd at the pool, (m,)."""
        return np.sqrt(np.maximum(self._variance, 1e-8))

    def at(self, points: Inputs, z: Array) -> tuple[Array, Array]:
        """The posterior mean and sd at other points."""
        points = self._stretched(points)
        halves = self._solved(self._covariance(self._given, points)[1])
        mean = self._solved(z[:, None])[:, 0] @ halves
        return mean, np.sqrt(np.maximum(self._before(points) - _squares(halves), 1e-8))

    def believed(self, z: Array) -> Array:
        """Targets with NaN replaced by what the others lead to expect."""
        known = np.isfinite(z)
        if known.all():
            return z
        if not known.any():
            return np.zeros_like(z)
        weights = np.linalg.solve(self.kernel[np.ix_(known, known)], z[known])
        filled = z.copy()
        filled[~known] = self.kernel[np.ix_(~known, known)] @ weights
        return filled

    @property
    def nearness(self) -> Array:
        """Squared correlations of the given points with the pool, (n, m)."""
        return self._near.rows**2

    def _stretched(self, points: Inputs) -> Inputs:
        return Inputs(points.x * self._stretch, points.u * np.sqrt(self.hyper.linear))

    def _covariance(self, a: Inputs, b: Inputs) -> tuple[Array, Array]:
        """Correlations by features alone, and covariances, (len(a), len(b)) each."""
        near = _matern(_squared(a.x, b.x))[0]
        found = self.hyper.signal * near
        return near, found + a.u @ b.u.T if a.u.shape[1] else found

    def _before(self, points: Inputs) -> Array:
        """The variance before anything is given."""
        return self.hyper.signal + (points.u**2).sum(1)

    def _solved(self, right: Array) -> Array:
        return np.asarray(solve_triangular(self._factor, right, lower=True, check_finite=False))


def _squared(a: Array, b: Array) -> Array:
    """Squared distances, (len(a), len(b))."""
    return (a * a).sum(1)[:, None] + (b * b).sum(1)[None] - 2 * a @ b.T


def _squares(halves: Array) -> Array:
    return np.einsum("ij,ij->j", halves, halves)


def fitted(given: Inputs, z: Array, by_scale: Array, start: Hyper, steps: int = _STEPS) -> Hyper:
    """Hyperparameters at a maximum of the posterior density, found from `start`."""
    apart = np.zeros((start.scales, len(given), len(given)))
    for column, scale in enumerate(by_scale):
        apart[scale] += (given.x[:, None, column] - given.x[None, :, column]) ** 2
    terms = given.u.T[:, :, None] * given.u.T[:, None, :]
    found = minimize(
        _loss, start.values, (apart, terms, z), "L-BFGS-B", jac=True, options={"maxiter": steps}
    )
    return Hyper(np.asarray(found.x), start.scales) if np.isfinite(found.fun) else start


def _loss(values: Array, apart: Array, terms: Array, z: Array) -> tuple[float, Array]:
    """Minus the logarithm of the posterior density, and its gradient."""
    hyper = Hyper(values, len(apart))
    weights = hyper.lengths**-2.0
    n = len(z)
    shape, slope = _matern((weights @ apart.reshape(len(apart), -1)).reshape(n, n))
    kernel = hyper.signal * shape
    if len(terms):
        kernel += np.tensordot(hyper.linear, terms, 1)
    kernel[np.diag_indices_from(kernel)] += hyper.noise
    try:
        factor = cholesky(kernel, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return 1e9, np.zeros_like(values)
    inverse = cho_solve((factor, True), np.eye(n), check_finite=False)
    alpha = inverse @ z
    outer = inverse - np.outer(alpha, alpha)
    tilted = (outer * slope * hyper.signal).ravel()
    gradient = np.empty_like(values)
    gradient[: len(apart)] = -0.5 * weights * (apart.reshape(len(apart), -1) @ tilted) * -1.0
    linear = terms.reshape(len(terms), n * n) @ outer.ravel()
    gradient[len(apart) : -2] = 0.5 * hyper.linear * linear
    gradient[-2] = 0.5 * hyper.signal * np.vdot(outer, shape)
    gradient[-1] = 0.5 * (hyper.noise - _JITTER) * np.trace(outer)
    mean, sd = _middle(len(apart), len(terms))
    away = (values - mean) / sd
    loss = 0.5 * z @ alpha + np.log(np.diag(factor)).sum() + 0.5 * (away**2).sum()
    return float(loss), gradient + away / sd
