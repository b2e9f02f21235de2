"""Learning on the job: what a few measured times say about the candidates beside them.

A Gaussian process over the residuals that the trees leave, in units of their expected size. Two
rows resemble each other by what they share, as `solkit.surrogate.doubt.Scatter` measured it on
families that the trees did not know::

    k(a, b) = everywhere [same GPU and compiler] + family [..] + kernel [..] + cell [..]
              + rest x (share of trees in which both are in the same leaf)

A GPU or a compiler that differs halves what family, kernel and cell share. So a point about one
kernel says much about its neighbours, little about other kernels, and nothing is forgotten. Times
agree to 1 % or so, which is the noise of a new point; a stale one gets more.

Rasmussen and Williams, "Gaussian Processes for Machine Learning" (2006), equations 2.25 and 2.26;
the leaf kernel: Davies and Ghahramani, "The Random Forest Kernel" (2014).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from solkit.surrogate.doubt import Scatter
from solkit.surrogate.features import Array
from solkit.surrogate.table import Table

__all__ = ["MOST", "Known", "Memory"]

MOST = 1500
"""Points that are kept: the latest ones. Solving for as many takes half a second."""

_EVERYWHERE = 0.05
_ELSEWHERE = 0.5
"""Share of what a family, a kernel or a cell has in common on another GPU or compiler."""
_NOISE_LOG2 = 0.02
"""Of a median time: repeats of the shipped sets differ by 1 % (docs/data.md)."""
_LEAST_NARROWING = 0.4
_DOUBTED = 1.0
"""Points as expected that stand against those that surprise."""
_SHARED = ("family", "kernel_id", "problem_id")


@dataclass(frozen=True)
class Known:
    """Rows, as far as their likeness is concerned.

    Attributes:
        about: keys, (rows,) each: `_SHARED`, ``device`` and ``triton_version``.
        leaves: of each tree, (rows, trees).
    """

    about: dict[str, Array]
    leaves: Array

    @staticmethod
    def of(table: Table, leaves: Array) -> Known:
        """Of the rows of a table."""
        names = (*_SHARED, "device", "triton_version")
        return Known({name: table.about[name].astype(str) for name in names}, leaves)

    def __len__(self) -> int:
        return len(self.leaves)

    def __getitem__(self, rows: Array | slice) -> Known:
        """Some of the rows."""
        return Known({name: each[rows] for name, each in self.about.items()}, self.leaves[rows])

    def __add__(self, other: Known) -> Known:
        about = {
            name: np.concatenate([each, other.about[name]]) for name, each in self.about.items()
        }
        return Known(about, np.concatenate([self.leaves, other.leaves]))


@dataclass(frozen=True)
class Memory:
    """Measured points, and what they say about others.

    Attributes:
        scatter: how rows resemble each other.
        known: the points.
        residual: log2(time / forecast) over the expected size, (points,).
        noise: variance of each in these units, (points,).
    """

    scatter: Scatter
    known: Known
    residual: Array
    noise: Array
    _factor: Array = field(init=False, repr=False)
    _weights: Array = field(init=False, repr=False)
    _surprise: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        covariance = _likeness(self.known, self.known, self.scatter)
        covariance[np.diag_indices(len(covariance))] += self.noise
        factor = np.linalg.cholesky(covariance)
        inverse = np.linalg.inv(factor)
        inverse = inverse.T @ inverse
        weights = inverse @ self.residual
        # each point as the others foretell it: Rasmussen and Williams, equations 5.10 to 5.12
        surprise = np.square(weights) / np.diag(inverse)
        for name, value in (("_factor", factor), ("_weights", weights), ("_surprise", surprise)):
            object.__setattr__(self, name, value)

    @staticmethod
    def of(
        scatter: Scatter,
        known: Known,
        residual_log2: Array,
        size: Array,
        stale: Array | float = 0.0,
    ) -> Memory:
        """Remember points.

        Args:
            scatter: of the trees.
            known: the points.
            residual_log2: log2(time / forecast), (points,).
            size: expected errors of the forecasts, in log2, (points,).
            stale: further standard deviation of a point's log2 time, (points,).
        """
        noise = (_NOISE_LOG2**2 + np.square(stale)) / np.square(size)
        last = slice(-MOST, None)
        residual = np.clip(residual_log2 / size, -6, 6)
        return Memory(scatter, known[last], residual[last], np.broadcast_to(noise, len(size))[last])

    def and_(self, other: Memory) -> Memory:
        """Both memories' points; those of `other` are the newer ones."""
        last = slice(-MOST, None)
        return Memory(
            self.scatter,
            (self.known + other.known)[last],
            np.concatenate([self.residual, other.residual])[last],
            np.concatenate([self.noise, other.noise])[last],
        )

    def recall(self, asked: Known) -> tuple[Array, Array]:
        """What the points say about rows.

        Returns:
            The expected residual over its size, (rows,); and how much smaller errors are than
            those of an unknown row, (rows,): above 1 where points like it were off by more than
            expected.
        """
        across = _likeness(asked, self.known, self.scatter)
        explained = np.square(np.linalg.solve(self._factor, across.T)).sum(axis=0)
        prior = _EVERYWHERE + sum(
            (self.scatter.family, self.scatter.kernel, self.scatter.cell, self.scatter.rest)
        )
        left = np.sqrt(np.maximum(1 - explained / prior, 0.0)) * self._wider(across)
        return across @ self._weights, np.maximum(left, _LEAST_NARROWING)

    def _wider(self, across: Array) -> Array:
        """How much larger errors are than expected, by the points of the same family, (rows,)."""
        like = np.minimum(across / (_EVERYWHERE + self.scatter.family), 1.0)
        doubt = _DOUBTED + like @ self._surprise
        return np.asarray(np.sqrt(doubt / (_DOUBTED + like.sum(axis=1))))


def _likeness(left: Known, right: Known, scatter: Scatter) -> Array:
    """The covariance of two sets of rows, (left, right)."""

    def same(name: str) -> Array:
        return np.asarray(left.about[name][:, None] == right.about[name][None, :])

    setting = same("device") & same("triton_version")
    family = same("family")
    kernel = family & same("kernel_id")
    cell = kernel & same("problem_id")
    shared = scatter.family * family + scatter.kernel * kernel + scatter.cell * cell
    found = _EVERYWHERE * setting + np.where(setting, 1.0, _ELSEWHERE) * shared
    return np.asarray(found + scatter.rest * _in_same_leaf(left.leaves, right.leaves))


def _in_same_leaf(left: Array, right: Array) -> Array:
    found: Array = np.zeros((len(left), len(right)), np.float32)
    for one, other in zip(left.T, right.T, strict=True):
        found += one[:, None] == other[None, :]
    return found / max(left.shape[1], 1)
