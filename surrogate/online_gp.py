"""Learning on the job: what a few measured times say about the candidates beside them.

A Gaussian process over the residuals that the trees leave, in log2. Two rows resemble each other by
what they share, as `solkit.surrogate.out_of_distribution.VarianceComponents` measured it on
families that the trees did not know, in units of the errors that were expected::

    k(a, b) = everywhere [same GPU and compiler] + alike [same family]
              + size(a) x size(b) x (family [..] + kernel [..] + cell [..]
                                     + rest x share of trees in which both are in the same leaf)

A GPU or a compiler that differs halves what family, kernel and cell share. So a point about one
kernel says much about its neighbours, little about other kernels, and nothing is forgotten. Times
agree to 1 % or so, which is the noise of a new point; a stale one gets more.

The process: `solkit.surrogate.gaussian_process`. The leaf kernel: Davies and Ghahramani, "The
Random Forest Kernel" (2014).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from solkit.surrogate.features import Array
from solkit.surrogate.gaussian_process import GaussianProcess
from solkit.surrogate.out_of_distribution import VarianceComponents
from solkit.surrogate.table import Table

MOST = 1500
"""Points that are kept: the latest ones. Solving for as many takes half a second."""

_EVERYWHERE = _ALIKE = 0.0005
"""Variances, in log2, of what slows all kernels down evenly, and all of one family, however small
the expected errors are: 1.5 %. Larger ones made errors after an update larger."""
_ELSEWHERE = 0.5
"""Share of what a family, a kernel or a cell has in common on another GPU or compiler."""
_NOISE_LOG2 = 0.02
"""Noise of a median time: repeats of the shipped sets differ by 1 % (docs/data.md)."""
_MOST_LOG2 = 5.0
"""A point that is further off than 32 times counts as if it were 32 times off."""
_LEAST_NARROWING = 0.95
_DOUBTED = 1.0
"""Points as expected that stand against those that surprise."""
_SHARED = ("family", "kernel_id", "problem_id")


@dataclass(frozen=True)
class ObservedResiduals:
    """Rows, as far as their likeness is concerned.

    Attributes:
        about: keys, (rows,) each: `_SHARED`, ``device`` and ``triton_version``.
        leaves: of each tree, (rows, trees).
    """

    about: dict[str, Array]
    leaves: Array

    @staticmethod
    def from_table(table: Table, leaves: Array) -> ObservedResiduals:
        """Return the residuals' keys and leaves for the rows of a table."""
        names = (*_SHARED, "device", "triton_version")
        return ObservedResiduals({name: table.about[name].astype(str) for name in names}, leaves)

    def __len__(self) -> int:
        return len(self.leaves)

    def __getitem__(self, rows: Array | slice) -> ObservedResiduals:
        """Select some of the rows."""
        return ObservedResiduals(
            {name: values[rows] for name, values in self.about.items()}, self.leaves[rows]
        )

    def __add__(self, other: ObservedResiduals) -> ObservedResiduals:
        about = {
            name: np.concatenate([values, other.about[name]]) for name, values in self.about.items()
        }
        return ObservedResiduals(about, np.concatenate([self.leaves, other.leaves]))


@dataclass(frozen=True)
class ResidualGP:
    """Measured points, and what they say about others.

    Attributes:
        scatter: how rows resemble each other.
        points: measured ones.
        residual: log2(time / forecast), (points,).
        size: expected errors of the forecasts, in log2, (points,).
        noise: variance of the residuals, (points,).
    """

    scatter: VarianceComponents
    points: ObservedResiduals
    residual: Array
    size: Array
    noise: Array
    _process: GaussianProcess = field(init=False, repr=False)
    _surprises: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        process = GaussianProcess(self._point_covariances(self.points, self.size), self.noise)
        object.__setattr__(self, "_process", process)
        object.__setattr__(self, "_surprises", process.leave_one_out_errors(self.residual))

    @staticmethod
    def from_residuals(
        scatter: VarianceComponents,
        points: ObservedResiduals,
        residual_log2: Array,
        size: Array,
        stale: Array | float = 0.0,
    ) -> ResidualGP:
        """Remember points; of more than `MOST` the last.

        Args:
            scatter: of the trees.
            points: the points.
            residual_log2: log2(time / forecast), (points,).
            size: expected errors of the forecasts, in log2, (points,).
            stale: further standard deviation of a point's log2 time, (points,).
        """
        noise = np.broadcast_to(_NOISE_LOG2**2 + np.square(stale), len(size))
        residual = np.clip(residual_log2, -_MOST_LOG2, _MOST_LOG2)
        last = slice(-MOST, None)
        return ResidualGP(scatter, points[last], residual[last], size[last], noise[last])

    def holds(self, rows: ObservedResiduals) -> Array:
        """Tell whether a point of its family was measured, (rows,)."""
        return np.isin(rows.about["family"], self.points.about["family"])

    def and_(self, other: ResidualGP) -> ResidualGP:
        """Join both memories' points; those of `other` are the newer ones."""
        last = slice(-MOST, None)
        pairs = (
            (self.residual, other.residual),
            (self.size, other.size),
            (self.noise, other.noise),
        )
        joined = (np.concatenate(pair)[last] for pair in pairs)
        return ResidualGP(self.scatter, (self.points + other.points)[last], *joined)

    def predict_residuals(self, rows: ObservedResiduals, size: Array) -> tuple[Array, Array]:
        """Return what the points say about rows.

        Args:
            rows: those that are asked about.
            size: expected errors of their forecasts, in log2, (rows,).

        Returns:
            The expected residual in log2, (rows,); and how much smaller errors are than those of an
            unknown row, (rows,): above 1 where points like it were off by more than expected.
        """
        scatter = self.scatter
        own = scatter.family + scatter.kernel + scatter.cell + scatter.rest
        prior = _EVERYWHERE + _ALIKE + own * np.square(size)
        cross = self._point_covariances(rows, size).T
        mean, variance = self._process.posterior(self.residual, cross, prior)
        narrower = np.sqrt(np.maximum(variance / prior, 0.0)) * self._surprise_factors(rows)
        return mean, np.maximum(narrower, _LEAST_NARROWING)

    def _surprise_factors(self, rows: ObservedResiduals) -> Array:
        """Return how much larger errors are than expected, by a family's points, (rows,)."""
        like = rows.about["family"][:, None] == self.points.about["family"][None, :]
        doubt = _DOUBTED + like @ self._surprises
        return np.asarray(np.sqrt(doubt / (_DOUBTED + like.sum(axis=1))))

    def _point_covariances(self, rows: ObservedResiduals, size: Array) -> Array:
        """Return the covariance of rows with the points, (rows, points)."""

        def have_same(name: str) -> Array:
            return np.asarray(rows.about[name][:, None] == self.points.about[name][None, :])

        setting = have_same("device") & have_same("triton_version")
        family = have_same("family")
        kernel = family & have_same("kernel_id")
        cell = kernel & have_same("problem_id")
        shared = self.scatter.family * family + self.scatter.kernel * kernel
        shared = shared + self.scatter.cell * cell
        here = np.where(setting, 1.0, _ELSEWHERE)
        near = self.scatter.rest * _shared_leaf_fractions(rows.leaves, self.points.leaves)
        even = _EVERYWHERE * setting + _ALIKE * here * family
        return np.asarray(even + np.outer(size, self.size) * (here * shared + near))


def _shared_leaf_fractions(left: Array, right: Array) -> Array:
    shared: Array = np.zeros((len(left), len(right)), np.float32)
    for one, other in zip(left.T, right.T, strict=True):
        shared += one[:, None] == other[None, :]
    return shared / max(left.shape[1], 1)
