"""Belief about a kernel at one shape on one GPU from measurements elsewhere: a `Prior`.

Notation
    c, p        a cell (one shape on one GPU) and a point (a configuration)
    y(c, p)     log2 of the time in ms, the median of its repeats
    a(c), b(p)  how long the cell takes, and how much more the point: y(c, p) = a(c) + b(p) + e
    D(c)        the doublings between the cell's sizes and the target's, and whether the GPU differs
    v(c)        the variance of e between the cell and the target
    w(c)        1 / v(c)

a and b are fitted by turns to the cells' times (weighted two-way analysis of variance), so that a
cell in which only good points were measured does not make them look better than they are.

How far e reaches was read off the shipped sets, from 3,569 pairs of cells of one kernel and shape
on the H100 and H200, and 1,796 pairs of two shapes, with eight configurations in common or more.
Between the GPUs e has a standard deviation of 0.07; between shapes 0.28 at two doublings in all,
0.44 at two to four, 0.57 at about eight, as of a random walk with 0.2 a doubling. The level a,
carried over by the roofline, is off by 0.42 between the GPUs and by 0.5 to 1.8 between shapes. It
is the same for all points and not part of the standard deviations here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from solkit.core import Outcome, Params, Value, canonical
from solkit.tuner.tuning_results import time_counts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from solkit.tuner.search import Prior

    Array = NDArray[np.float64]

_NOISE = 0.02
"""Standard deviation of log2 of a time that was measured at the target: 1.4 %."""
_OTHER_GPU = 0.07
_A_DOUBLING = 0.2
_OTHER_WORD = 2.0  # doublings that another dtype or flag counts as
_PASSES = 20
_DOUBT = 0.5  # weight of the mean share of failures, in rows at the target


@dataclass
class _Cell:
    """Measurements at one shape on one GPU."""

    variance: float
    is_target: bool
    bound_ms: float | None = None
    times_ms: dict[str, list[float]] = field(default_factory=dict)
    failed: dict[str, list[bool]] = field(default_factory=dict)

    def take(self, row: Outcome, params: str) -> None:
        if row.comparison is not None:
            return
        self.bound_ms = self.bound_ms or row.bound_ms
        if time_counts(row) and row.time_ms:
            self.times_ms.setdefault(params, []).append(row.time_ms)
            self.failed.setdefault(params, []).append(False)
        elif row.verdict.is_failure:
            self.failed.setdefault(params, []).append(True)

    def log2_ms(self) -> dict[str, float]:
        return {params: math.log2(median(times)) for params, times in self.times_ms.items()}


class TransferPrior:
    """A belief about a kernel's configurations from rows of any of its shapes and GPUs.

    It is a prior for a search (`solkit.tuner.search`): ask `log2_ms` and `fails`, and start with
    `seeds`. The level is known only where the target itself was measured, or by the roofline.

    Args:
        rows: of one kernel.
        shape: the sizes that are asked about.
        device: the GPU that is asked about.
        bound_ms: the roofline there, if known.
    """

    def __init__(
        self,
        rows: Iterable[Outcome],
        shape: Mapping[str, Value],
        device: str,
        bound_ms: float | None = None,
    ) -> None:
        self._points: dict[str, Params] = {}
        cells: dict[tuple[str, str], _Cell] = {}
        for row in rows:
            where, params = (canonical(row.shape), row.device), canonical(row.params)
            if where not in cells:
                doublings, other = shape_distance(row.shape, shape), row.device != device
                variance = _NOISE**2 + _OTHER_GPU**2 * other + _A_DOUBLING**2 * doublings
                cells[where] = _Cell(variance, doublings == 0 and not other)
            cells[where].take(row, params)
            self._points.setdefault(params, dict(row.params))
        self._cells = sorted(cells.values(), key=lambda cell: cell.variance)
        self._mean, self._variance = _fit_two_way(self._cells, bound_ms)
        self._chances, self._chance = _failure_chances(self._cells)

    def __len__(self) -> int:
        """Return the number of configurations with a time."""
        return len(self._mean)

    @property
    def measured(self) -> tuple[tuple[Params, float], ...]:
        """Configurations that were timed at the target itself, with their times in ms."""
        here = [cell for cell in self._cells if cell.is_target]
        return tuple(
            (self._points[params], median(times_ms))
            for cell in here
            for params, times_ms in cell.times_ms.items()
        )

    @property
    def points(self) -> tuple[Params, ...]:
        """Every configuration that has a time somewhere."""
        return tuple(self._points[params] for params in self._mean)

    def has_tried(self, point: Params) -> bool:
        """Tell whether a configuration was tried anywhere, with success or without."""
        return canonical(point) in self._chances

    def seeds(self, number: int) -> list[Params]:
        """Return the most promising configurations, best first, to be measured before any other.

        Those likely to fail at the target are left out.
        """
        likely = [
            params for params in self._mean if self._chances.get(params, self._chance) < 1 / 2
        ]
        best = sorted(likely, key=self._mean.__getitem__)
        return [dict(self._points[params]) for params in best[:number]]

    def log2_ms(self, points: Sequence[Params]) -> tuple[Array, Array]:
        """Return mean and sd of log2 of the time in ms, (points,); nan where unknown."""
        import numpy as np

        keys = [canonical(point) for point in points]
        mean = np.array([self._mean.get(key, math.nan) for key in keys])
        variance = np.array([self._variance.get(key, math.nan) for key in keys])
        return mean, np.sqrt(variance)

    def fails(self, points: Sequence[Params]) -> Array:
        """Return chances of failing, (points,); the mean share of failures if nothing is known."""
        import numpy as np

        return np.array([self._chances.get(canonical(point), self._chance) for point in points])


class CompositePrior:
    """Prior with another belief where it knows nothing.

    The other's times are shifted to agree with what is known, in the median over the points that
    both tell of: a surrogate may know a space well and be wrong about its level.

    Args:
        measured: what rows say; it goes first.
        other: covers the rest.
    """

    def __init__(self, measured: TransferPrior, other: Prior) -> None:
        import numpy as np

        self._measured, self._other = measured, other
        ours, theirs = (prior.log2_ms(measured.points)[0] for prior in (measured, other))
        apart = (ours - theirs)[np.isfinite(ours - theirs)]
        self._shift = float(np.median(apart)) if len(apart) else 0.0

    def log2_ms(self, points: Sequence[Params]) -> tuple[Array, Array]:
        """Return mean and sd of log2 of the time in ms, (points,); nan where unknown."""
        import numpy as np

        (mean, sd), (other, other_sd) = (e.log2_ms(points) for e in (self._measured, self._other))
        unknown = np.isnan(mean)
        return (np.where(unknown, other + self._shift, mean), np.where(unknown, other_sd, sd))

    def fails(self, points: Sequence[Params]) -> Array:
        """Return the chance of failing, (points,)."""
        import numpy as np

        tried = np.array([self._measured.has_tried(point) for point in points], dtype=bool)
        return np.where(tried, self._measured.fails(points), self._other.fails(points))


def shape_distance(shape: Mapping[str, Value], other: Mapping[str, Value]) -> float:
    """Return how far apart two shapes are, in doublings; only sizes that `other` names count.

    Another dtype or flag, or a size that `shape` lacks, counts as two doublings.
    """
    return math.fsum(_value_distance(shape.get(name), value) for name, value in other.items())


def _value_distance(one: Value, other: Value) -> float:
    if one == other:
        return 0.0
    if _is_size_value(one) and _is_size_value(other):
        return abs(math.log2(one / other))  # type: ignore[operator]
    return _OTHER_WORD


def _is_size_value(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _fit_two_way(
    cells: Sequence[_Cell], bound_ms: float | None
) -> tuple[dict[str, float], dict[str, float]]:
    """Return mean and variance of log2 ms at the target, by point; `cells` nearest first."""
    times = [(cell, cell.log2_ms()) for cell in cells if cell.times_ms]
    if not times:
        return {}, {}
    bound_ms = next((cell.bound_ms for cell in cells if cell.is_target and cell.bound_ms), bound_ms)
    levels = [math.log2(cell.bound_ms) if cell.bound_ms else 0.0 for cell, _ in times]
    held: dict[str, list[int]] = {}
    for place, (_, log2_ms) in enumerate(times):
        for params in log2_ms:
            held.setdefault(params, []).append(place)
    weights = [1 / cell.variance for cell, _ in times]
    points: dict[str, float] = {}
    for _ in range(_PASSES if len(times) > 1 else 1):
        points = {
            params: _weighted_mean(
                [times[c][1][params] - levels[c] for c in among], [weights[c] for c in among]
            )
            for params, among in held.items()
        }
        # a cell that shares no point with others keeps its level: nothing ties it to them
        levels = [
            _weighted_mean(
                [y - points[params] for params, y in log2_ms.items()],
                [len(held[p]) - 1 for p in log2_ms],
            )
            if any(len(held[p]) > 1 for p in log2_ms)
            else levels[place]
            for place, (_, log2_ms) in enumerate(times)
        ]
    nearest, _ = times[0]
    carried = math.log2(bound_ms / nearest.bound_ms) if bound_ms and nearest.bound_ms else 0.0
    level = levels[0] + (0.0 if nearest.is_target else carried)
    mean = {params: level + value for params, value in points.items()}
    variance = {params: 1 / sum(weights[c] for c in among) for params, among in held.items()}
    if nearest.is_target:  # what was measured needs no fit
        mean.update(times[0][1])
    return mean, variance


def _failure_chances(cells: Sequence[_Cell]) -> tuple[dict[str, float], float]:
    """Return the chance of failing at the target by point, and the mean share."""
    every = [failed for cell in cells for outcomes in cell.failed.values() for failed in outcomes]
    share = sum(every) / len(every) if every else 0.0
    counts_by_params: dict[str, tuple[float, float]] = {}
    for cell in cells:
        weight = 1 / (1 + cell.variance / _A_DOUBLING**2)
        for params, outcomes in cell.failed.items():
            failed, rows = counts_by_params.get(params, (_DOUBT * share, _DOUBT))
            counts_by_params[params] = (
                failed + weight * sum(outcomes),
                rows + weight * len(outcomes),
            )
    return {params: failed / rows for params, (failed, rows) in counts_by_params.items()}, share


def _weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return math.fsum(v * w for v, w in zip(values, weights, strict=True)) / math.fsum(weights)
