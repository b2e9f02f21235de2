"""Gaussian processes: the posterior, a kernel function, and the fit of its hyperparameters.

Notation
    x           points where targets were observed, (n,); x* others, (m,)
    y           the targets, (n,): y = f(x) + e, where f ~ N(0, k) and e ~ N(0, noise)
    K           k(x, x) + noise, (n, n), and L its Cholesky factor: K = L Lᵀ
    α           K⁻¹ y
    mean        k(x*, x) α
    variance    k(x*, x*) − k(x*, x) K⁻¹ k(x, x*)

Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006: equations 2.25 and 2.26 (the
posterior), 5.8 and 5.9 (the marginal likelihood), 5.10 to 5.12 (leaving one out), and section 2.7
(linear models as processes). scipy is imported where it computes: reading a surrogate needs none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from solkit.surrogate.features import Array

_ROOT5 = math.sqrt(5.0)
_JITTER = 1e-6
_STEPS = 15  # of the optimiser, which starts where the last fit ended

# Priors of the logarithms, for features from 0 to 1 and targets of variance 1
_LENGTH, _LENGTH_SD = math.log(0.6), 1.0
_LINEAR, _LINEAR_SD = math.log(0.3), 1.0
_SIGNAL, _SIGNAL_SD = 0.0, 1.0
_NOISE, _NOISE_SD = math.log(1e-2), 1.5


class GaussianProcess:
    """A process with mean 0, conditioned on observed points.

    Args:
        covariance: k(x, x), (n, n).
        noise: variance of each target's noise, (n,), or of all.

    Raises:
        LinAlgError: K is not positive definite.
    """

    def __init__(self, covariance: Array, noise: Array | float) -> None:
        from scipy.linalg import cholesky

        self._covariance = covariance.copy()
        self._covariance[np.diag_indices_from(covariance)] += noise
        self._factor = cholesky(self._covariance, lower=True, check_finite=False)

    def solve_triangular_factor(self, right: Array) -> Array:
        """Multiply L⁻¹ by columns, (n, ...)."""
        from scipy.linalg import solve_triangular

        return np.asarray(solve_triangular(self._factor, right, lower=True, check_finite=False))

    def posterior(self, targets: Array, cross: Array, prior: Array) -> tuple[Array, Array]:
        """Return mean and variance at other points, (m,) each.

        Args:
            targets: y.
            cross: k(x, x*), (n, m).
            prior: k(x*, x*), (m,).
        """
        halves = self.solve_triangular_factor(cross)
        return self.solve_triangular_factor(targets) @ halves, prior - _column_squares(halves)

    def observe(self, cross: Array, variance: float) -> tuple[Array, float]:
        """Add a point in O(n²).

        Args:
            cross: its covariances with the others, (n,).
            variance: its own, with noise.

        Returns:
            The new row of L: what stands left of the diagonal, and on it.
        """
        half = self.solve_triangular_factor(cross)
        root = math.sqrt(max(variance - float(half @ half), _JITTER))
        column, corner = cross[:, None], np.array([[variance]])
        self._covariance = np.block([[self._covariance, column], [column.T, corner]])
        above = np.zeros_like(column)
        self._factor = np.block([[self._factor, above], [half[None], np.array([[root]])]])
        return half, root

    def impute_missing(self, targets: Array) -> Array:
        """Replace NaN by the posterior mean that the other targets lead to."""
        observed = np.isfinite(targets)
        if observed.all():
            return targets
        if not observed.any():
            return np.zeros_like(targets)
        inner = self._covariance[np.ix_(observed, observed)]
        imputed = targets.copy()
        imputed[~observed] = self._covariance[np.ix_(~observed, observed)] @ np.linalg.solve(
            inner, targets[observed]
        )
        return imputed

    def leave_one_out_errors(self, targets: Array) -> Array:
        """Return each squared error, as the other targets foretell it, over its variance: (n,)."""
        inverse = self._inverse_covariance()
        return np.asarray(np.square(inverse @ targets) / np.diag(inverse))

    def log_likelihood(self, targets: Array) -> tuple[float, Array]:
        """Log density of the targets but for a constant, and its derivative by K, (n, n)."""
        inverse = self._inverse_covariance()
        alpha = inverse @ targets
        value = -0.5 * float(targets @ alpha) - float(np.log(np.diag(self._factor)).sum())
        return value, 0.5 * (np.outer(alpha, alpha) - inverse)

    def _inverse_covariance(self) -> Array:
        from scipy.linalg import cho_solve

        identity = np.eye(len(self._factor))
        return np.asarray(cho_solve((self._factor, True), identity, check_finite=False))


# ---------------------------------------------------------------------------------- the kernel


@dataclass(frozen=True)
class Inputs:
    """Points as a kernel sees them.

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

    def __add__(self, other: Inputs) -> Inputs:
        return Inputs(np.vstack([self.x, other.x]), np.vstack([self.u, other.u]))


@dataclass(frozen=True)
class Hyperparameters:
    """Hyperparameters of `Matern`, as logarithms.

    Attributes:
        values: of ℓ (scales), τ² (terms), s² and σ².
        scales: number of length scales.
    """

    values: Array
    scales: int

    @classmethod
    def default(cls, scales: int, terms: int) -> Hyperparameters:
        """Return the middle of the prior."""
        return cls(_log_prior_moments(scales, terms)[0], scales)

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


def _log_prior_moments(scales: int, terms: int) -> tuple[Array, Array]:
    """Return mean and sd of the prior of the values of `Hyperparameters`."""
    mean = [_LENGTH] * scales + [_LINEAR] * terms + [_SIGNAL, _NOISE]
    sd = [_LENGTH_SD] * scales + [_LINEAR_SD] * terms + [_SIGNAL_SD, _NOISE_SD]
    return np.array(mean), np.array(sd)


class Matern:
    """Matérn 5/2 with a length scale a parameter, and a Bayesian linear model.

    k(x, x') = s² (1 + r√5 + 5r²/3) exp(−r√5) + Σ τ² u u', where r² = Σ (x − x')² / ℓ²

    Args:
        hyper: s², τ², ℓ and the noise σ².
        by_scale: by column of the features, the number of its length scale.
    """

    def __init__(self, hyper: Hyperparameters, by_scale: Array) -> None:
        self.hyper = hyper
        self._stretch, self._weights = 1 / hyper.lengths[by_scale], np.sqrt(hyper.linear)

    def scale(self, points: Inputs) -> Inputs:
        """Return points in units of the hyperparameters, as the other methods take them."""
        return Inputs(points.x * self._stretch, points.u * self._weights)

    def __call__(self, a: Inputs, b: Inputs) -> tuple[Array, Array]:
        """Return correlations by features alone, and covariances, (len(a), len(b)) each."""
        squared = (a.x * a.x).sum(1)[:, None] + (b.x * b.x).sum(1)[None] - 2 * a.x @ b.x.T
        near = _matern_and_slope(squared)[0]
        covariance = self.hyper.signal * near
        return near, covariance + a.u @ b.u.T if a.u.shape[1] else covariance

    def variance(self, points: Inputs) -> Array:
        """Return k(x, x) of each point, (points,)."""
        return np.asarray(self.hyper.signal + (points.u**2).sum(1))


def _matern_and_slope(squared: Array) -> tuple[Array, Array]:
    """Return Matérn 5/2 of squared distances, and its derivative by those times −2."""
    root = _ROOT5 * np.sqrt(np.maximum(squared, 0.0))
    fall = np.exp(-root)
    return (1 + root + root * root / 3) * fall, (5 / 3) * (1 + root) * fall


def fit_hyperparameters(
    observed: Inputs, targets: Array, by_scale: Array, start: Hyperparameters, steps: int = _STEPS
) -> Hyperparameters:
    """Fit hyperparameters at a maximum of the posterior density, from `start`."""
    from scipy.optimize import minimize

    apart = np.zeros((start.scales, len(observed), len(observed)))
    for column, scale in enumerate(by_scale):
        apart[scale] += (observed.x[:, None, column] - observed.x[None, :, column]) ** 2
    terms = observed.u.T[:, :, None] * observed.u.T[:, None, :]
    best = minimize(
        _negative_log_posterior,
        start.values,
        (apart, terms, targets),
        "L-BFGS-B",
        jac=True,
        options={"maxiter": steps},
    )
    return Hyperparameters(np.asarray(best.x), start.scales) if np.isfinite(best.fun) else start


def _negative_log_posterior(
    values: Array, apart: Array, terms: Array, targets: Array
) -> tuple[float, Array]:
    """Return minus the logarithm of the posterior density, and its gradient."""
    hyper = Hyperparameters(values, len(apart))
    weights, n = hyper.lengths**-2.0, len(targets)
    shape, slope = _matern_and_slope((weights @ apart.reshape(len(apart), -1)).reshape(n, n))
    covariance = hyper.signal * shape
    if len(terms):
        covariance += np.tensordot(hyper.linear, terms, 1)
    try:
        process = GaussianProcess(covariance, hyper.noise)
    except np.linalg.LinAlgError:
        return 1e9, np.zeros_like(values)
    likelihood, by_covariance = process.log_likelihood(targets)
    by_distance = (by_covariance * slope * hyper.signal).ravel()
    gradient = np.empty_like(values)  # of the log likelihood
    gradient[: len(apart)] = weights * (apart.reshape(len(apart), -1) @ by_distance)
    gradient[len(apart) : -2] = hyper.linear * (
        terms.reshape(len(terms), n * n) @ by_covariance.ravel()
    )
    gradient[-2] = hyper.signal * np.vdot(by_covariance, shape)
    gradient[-1] = (hyper.noise - _JITTER) * np.trace(by_covariance)
    mean, sd = _log_prior_moments(len(apart), len(terms))
    away = (values - mean) / sd
    return 0.5 * float((away**2).sum()) - likelihood, away / sd - gradient


# -------------------------------------------------------------------------------------- a pool


class _Rows:
    """A matrix that grows by rows."""

    def __init__(self, rows: Array) -> None:
        self._room, self._count = rows, len(rows)

    @property
    def array(self) -> Array:
        return self._room[: self._count]

    def add(self, row: Array) -> None:
        if self._count == len(self._room):
            more = np.empty((max(16, self._count // 4), self._room.shape[1]))
            self._room = np.vstack([self._room, more])
        self._room[self._count] = row
        self._count += 1


class PoolProcess(GaussianProcess):
    """A process that is asked about the same pool of points as observations come in.

    An observation costs O(n (n + m)) for n observed points and a pool of m.

    Args:
        kernel: of the process.
        observed: points with targets.
        pool: points where the posterior is asked for.
    """

    def __init__(self, kernel: Matern, observed: Inputs, pool: Inputs) -> None:
        self._kernel = kernel
        self._observed, pool = kernel.scale(observed), kernel.scale(pool)
        super().__init__(kernel(self._observed, self._observed)[1], kernel.hyper.noise)
        near, cross = kernel(self._observed, pool)
        self._near, self._halves = _Rows(near), _Rows(self.solve_triangular_factor(cross))
        self._pool, self._variance = (
            pool,
            kernel.variance(pool) - _column_squares(self._halves.array),
        )

    def add(self, point: Inputs) -> None:
        """Observe another point."""
        point = self._kernel.scale(point)
        cross = self._kernel(self._observed, point)[1][:, 0]
        variance = float(self._kernel.variance(point)[0]) + self._kernel.hyper.noise
        half, root = self.observe(cross, variance)
        near, there = self._kernel(point, self._pool)
        row = (there[0] - half @ self._halves.array) / root
        self._near.add(near[0])
        self._halves.add(row)
        self._variance = self._variance - row * row
        self._observed = self._observed + point

    def widen(self, points: Inputs) -> None:
        """Add points to the pool."""
        points = self._kernel.scale(points)
        near, cross = self._kernel(self._observed, points)
        halves = self.solve_triangular_factor(cross)
        self._near = _Rows(np.hstack([self._near.array, near]))
        self._halves = _Rows(np.hstack([self._halves.array, halves]))
        variance = self._kernel.variance(points) - _column_squares(halves)
        self._variance = np.concatenate([self._variance, variance])
        self._pool = self._pool + points

    def mean(self, targets: Array) -> Array:
        """Return the posterior mean at the pool, (m,)."""
        return self.solve_triangular_factor(targets) @ self._halves.array

    @property
    def variance(self) -> Array:
        """The posterior variance at the pool, (m,)."""
        return np.asarray(np.maximum(self._variance, 1e-8))

    def at(self, points: Inputs, targets: Array) -> tuple[Array, Array]:
        """Return the posterior mean and variance at points outside the pool."""
        points = self._kernel.scale(points)
        cross, prior = self._kernel(self._observed, points)[1], self._kernel.variance(points)
        mean, variance = self.posterior(targets, cross, prior)
        return mean, np.maximum(variance, 1e-8)

    @property
    def nearness(self) -> Array:
        """Squared correlations of the observed points with the pool, (n, m)."""
        return self._near.array**2


def _column_squares(halves: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->j", halves, halves))
