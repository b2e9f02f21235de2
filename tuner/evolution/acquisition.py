"""The frontier: candidates that are ranked, and which of them is measured next.

A candidate is a variant with parameters. What was measured changes what is expected of the rest: a
Gaussian process over the residuals of the forecasts, in log2.

Notation
    i, j        candidates
    m, s        what is expected of a candidate, and the standard deviation of the forecast's error
    r           the residual of a measured candidate: log2(time in ms) - m
    F, V, R     shares of the error that all variants of a problem, all candidates of a variant, and
                candidates of which much the same is forecast have in common. They add up to 1, and
                come from `solkit.surrogate.out_of_distribution.VarianceComponents`, whose rest is R
    A           the share of R that such candidates have in common with other parameters, too
    L           the difference of two forecasts, in log2, over which that likeness falls to 1/e
    e           the fault of a variant's forecasts: what r exceeds 3 s by, the least of those of its
                measured candidates. It is added to m of the variant, and of what was made of it
    k(i, j)     s(i) s(j) (F + V [same variant] + R (A + (1 - A) [same parameters])
                exp(-|m(i) - m(j)| / L)), and noise for what was measured

Many rewrites change little, so a variant of which much the same is forecast is expected to miss it
alike (decision 140 has how alike, from searches on an H200). A time far outside of all that an
error explains says that the forecast leaves something out, which its variant has in common.

The next one is the candidate with the largest expected improvement (Jones, Schonlau and Welch,
"Efficient Global Optimization of Expensive Black-Box Functions", 1998, equation 15), less what may
fail. A share of the choices explores.
"""

from __future__ import annotations

import functools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from solkit.core import BETTER, HOPELESS, Configuration, Order, canonical
from solkit.extras import library
from solkit.surrogate.gaussian_process import GaussianProcess
from solkit.tuner.evolution.compile_limits import CompileLimits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from solkit.core import Forecast
    from solkit.surrogate.out_of_distribution import VarianceComponents

    Array = NDArray[np.float64]

_EXPLORE_EVERY = 7
"""One choice in so many explores: about the share of `solkit.surrogate.plan.EXPLORED`."""
_EXPLORED_PLACE = 4  # of so many that are prepared, one is of a variant that was not measured
_NOISE_LOG2 = 0.02
"""Standard deviation of a median time: repeats of the shipped sets differ by 1 % (docs/data.md)."""
_NINETY = 1.645
"""Standard deviations on either side of the mean of a 90 % interval."""
_UNKNOWN_LOG2 = 0.33
"""Error of a forecast with no interval: the kernel model's median error of 16.7 %
(docs/lab/surrogate.md), as a standard deviation."""
_ALIKE_LOG2 = _UNKNOWN_LOG2
"""L: forecasts that differ by more than the kernel model's own error are of other programs."""
_ALIKE_SHARE = 0.7
"""A, from 102 searches on an H200 (docs/decisions/0140-errors-in-common.md)."""
_FAULT_SDS = 3.0  # errors of forecasts are smaller, but for 0.3 % of them
_MOST_FAILURES = 3
"""A variant is given up after so many failures with no success, none of them for want of memory."""
_DRAWS, _MOST_DRAWN = 512, 300  # samples of the joint posterior, and candidates in one


@dataclass(frozen=True)
class Shares:
    """Shares of the errors of forecasts that candidates have in common.

    Attributes:
        problem: share that all variants have in common.
        variant: beyond that, all candidates of one variant.
        rest: beyond that, candidates of which much the same is forecast.
    """

    problem: float = 0.2
    variant: float = 0.35
    rest: float = 0.45

    @staticmethod
    def of(scatter: VarianceComponents) -> Shares:
        """Return the shares that a surrogate found on families that it did not know."""
        variant = scatter.kernel + scatter.cell
        whole = scatter.family + variant + scatter.rest
        return Shares(scatter.family / whole, variant / whole, scatter.rest / whole)


@dataclass(frozen=True)
class Point:
    """A candidate that may be measured.

    Attributes:
        variant: its variant's id.
        configuration: what a bench is asked to measure.
        mean, sd: what is expected of log2 of its time in ms; 0 for `sd` before it is ranked.
        p_fail: the chance that it fails.
    """

    variant: str
    configuration: Configuration
    mean: float
    sd: float
    p_fail: float = 0.0

    @staticmethod
    def of(
        variant: str, configuration: Configuration, forecast: Forecast, otherwise_ms: float
    ) -> Point:
        """Make a point from a forecast; `otherwise_ms` is expected where nothing is known."""
        low_ms, high_ms = forecast.low_ms, forecast.high_ms
        sd = _UNKNOWN_LOG2
        if low_ms and high_ms and math.isfinite(high_ms):
            sd = max(math.log2(high_ms / low_ms) / (2 * _NINETY), _NOISE_LOG2)
        mean = math.log2(forecast.time_ms or otherwise_ms)
        return Point(variant, configuration, mean, sd, forecast.p_fail)

    @functools.cached_property
    def key(self) -> tuple[str, str]:
        """Key that tells candidates of a search apart."""
        return self.variant, canonical(self.configuration.params)


@dataclass(frozen=True)
class _Scored:
    """Candidates that may be measured, and what each promises.

    Attributes:
        points: the candidates, in the order added.
        promises: expected improvement in log2, or -m before any time, (points,).
        expected: log2 of the time that is expected of each, after what was measured.
        order: places, the most promising first.
    """

    points: list[Point]
    promises: Array
    expected: dict[tuple[str, str], float]
    order: list[int]


class Frontier:
    """Candidates that may be measured, and times of those that were.

    Args:
        order: how the next one is chosen.
        seed: of what is drawn.
        shares: of the errors of forecasts.
        lineage: a variant, its parent, and so on: all whose forecasts have a fault in common.

    Raises:
        UnsupportedError: scipy is not installed.
    """

    def __init__(
        self,
        order: Order = Order.SURROGATE,
        seed: int = 0,
        shares: Shares | None = None,
        lineage: Callable[[str], Iterable[str]] = lambda variant: (variant,),
    ) -> None:
        self._lineage = lineage
        self._ndtr = library("scipy.special", "evolve").ndtr
        self._order, self._random, self._shares = order, random.Random(seed), shares or Shares()
        self._points: dict[tuple[str, str], Point] = {}
        self._first: dict[tuple[str, str], Point] = {}  # forecasts before they were refined
        self._asked: set[tuple[str, str]] = set()
        self._times: dict[tuple[str, str], float] = {}
        self._failed: Counter[str] = Counter()
        self._telling: Counter[str] = Counter()  # failures that other parameters may share
        self._dropped: set[str] = set()
        self._dismissed: set[tuple[str, str]] = set()
        self._compile_limits = CompileLimits()
        self._choices = 0
        self._scored: _Scored | None = None  # until something is learnt

    def add(self, points: Iterable[Point]) -> None:
        """Add more candidates; a forecast that is known already stays."""
        self._scored = None
        for point in points:
            earlier = self._points.get(point.key)
            if earlier is None or earlier.sd == 0:  # it was measured before it was ranked
                self._points[point.key] = point

    def refine(self, point: Point) -> None:
        """Replace the forecast of a candidate that was analysed more deeply, until it is timed.

        What that changed is expected of those that are alike and were not: as if it were timed,
        with the error of the new forecast as its noise.
        """
        self._compile_limits.note(point.configuration, is_endless=False)
        if point.key in self._points and point.key not in self._asked:
            self._scored = None
            self._first.setdefault(point.key, self._points[point.key])
            self._points[point.key] = point

    def dismiss(self, point: Point) -> None:
        """Do not measure a candidate; this says nothing of the others of its variant."""
        self._scored = None
        self._dismissed.add(point.key)

    def tell(self, point: Point, time_ms: float | None, is_telling: bool = True) -> None:
        """Record the time of a candidate.

        Args:
            point: the candidate.
            time_ms: ``None`` if it failed.
            is_telling: whether other parameters may fail alike: not for want of memory.
        """
        self._scored = None
        self._points.setdefault(point.key, point)
        self._asked.add(point.key)
        if time_ms is not None:
            self._times[point.key] = time_ms
            return
        self._failed[point.variant] += 1
        self._telling[point.variant] += is_telling
        if self._telling[point.variant] >= _MOST_FAILURES and not self._succeeded(point.variant):
            self.drop(point.variant)

    def tell_endless(self, point: Point) -> None:
        """Record that compiling a candidate took too long: what is as large is hopeless."""
        self._compile_limits.note(point.configuration, is_endless=True)

    def drop(self, variant: str) -> None:
        """Measure no more of a variant: it is wrong, or cheats."""
        self._scored = None
        self._dropped.add(variant)

    def disown(self, variant: str) -> None:
        """Drop a variant and forget its times: it proved to be wrong after it was timed."""
        self.drop(variant)
        self._times = {key: time for key, time in self._times.items() if key[0] != variant}

    def remaining(self) -> list[Point]:
        """Return what may be measured, in the order added."""
        return [
            point
            for key, point in self._points.items()
            if key not in self._asked
            and key not in self._dismissed
            and point.variant not in self._dropped
            and point.p_fail < 1
        ]

    @property
    def best_ms(self) -> float | None:
        """The shortest time that was told."""
        return min(self._times.values(), default=None)

    def is_hopeless(self, point: Point) -> bool:
        """Tell whether a candidate is expected to take over `HOPELESS` times the best time.

        The interval of its forecast may be so wide that it promises a gain all the same. So is one
        that is as large as candidates which took too long to compile.
        """
        if self._compile_limits.is_beyond(point.configuration):
            return True
        if self.best_ms is None:
            return False
        mean = self._scores().expected.get(point.key, point.mean)
        return mean > math.log2(HOPELESS * self.best_ms)

    def gain(self, is_open: Callable[[Point], bool] = lambda _: True) -> float:
        """Return what the next measurement is expected to save, as a share of the best time.

        Args:
            is_open: whether a candidate counts.
        """
        scored = self._scores()
        best = next((place for place in scored.order if is_open(scored.points[place])), None)
        if best is None or self.best_ms is None:
            return 0.0 if best is None else math.inf
        return 1.0 - math.pow(2.0, -float(scored.promises[best]))

    def _scores(self) -> _Scored:
        """Return what may be measured, with what each promises.

        A search that waits asks several times a second, and nothing changes meanwhile.
        """
        if self._scored is None:
            points = self.remaining()
            mean, sd = self.believed(points)
            promises = -mean if self.best_ms is None else self._improvements(points, mean, sd)
            expected = {point.key: m for point, m in zip(points, mean.tolist(), strict=True)}
            order = np.argsort(-promises, kind="stable").tolist()
            self._scored = _Scored(points, promises, expected, order)
        return self._scored

    def better_chance(self, share: float = BETTER) -> float:
        """Return the chance that a candidate is left that saves over `share` of the best time.

        Errors of forecasts have much in common, so it is counted in samples of the joint posterior.
        Spreads are widened if each time, foretold from the others, is farther off than believed.
        """
        remaining = self.remaining()
        if not remaining or self.best_ms is None:
            return 1.0 if remaining else 0.0
        edge = math.log2(self.best_ms) + math.log2(1 - share)
        mean, sd = self.believed(remaining)
        likeliest = np.argsort(-(edge - mean) / sd)[:_MOST_DRAWN]
        points = [remaining[at] for at in likeliest]
        mean, covariance = self._joint_posterior(points)
        root = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(points)))
        normal = np.random.default_rng(0).standard_normal((len(points), _DRAWS))
        works = np.array([self._works_chance(point) for point in points])
        is_better = (mean[:, None] + root @ normal < edge) * works[:, None]
        return float(1 - np.prod(1 - is_better, axis=0).mean())

    def choose(self, is_ready: Callable[[Point], bool] = lambda _: True) -> Point | None:
        """Return what to measure next; ``None`` if nothing is left. It is not given again.

        Args:
            is_ready: whether a candidate can be measured at once: no others are chosen.
        """
        remaining = [point for point in self.remaining() if is_ready(point)]
        if not remaining:
            return None
        self._choices += 1
        point = self._choose_best(remaining)
        self._scored = None
        self._asked.add(point.key)
        return point

    def foremost(self) -> list[Point]:
        """Return what would be measured next, the most promising first, as far as is known now.

        Every fourth is the best candidate of a variant of which nothing was measured, as long as
        there are any: one of these is next if a choice explores. The hopeless come last, as they
        are measured only once nothing else is left.
        """
        if self._order is Order.RANDOM:
            return []
        scored = self._scores()
        points = [scored.points[place] for place in scored.order]
        points.sort(key=self.is_hopeless)
        for number, point in enumerate(self._best_of_unmeasured(points), start=1):
            points.insert(_EXPLORED_PLACE * number - 1, point)
        return list({point.key: point for point in points}.values())

    def believed(self, points: Sequence[Point]) -> tuple[Array, Array]:
        """Return mean and sd of log2 of the times, after what was measured, (points,)."""
        mean, sd = np.empty(len(points)), np.empty(len(points))
        is_refined = np.array([point.key in self._first for point in points], dtype=bool)
        measured = [point for point, _ in self._residuals()]
        timed = [
            (point, residual - fault, _NOISE_LOG2)
            for (point, residual), fault in zip(
                self._residuals(), self._faults_of(measured), strict=True
            )
        ]
        refined = [
            (first, self._points[key].mean - first.mean, self._points[key].sd)
            for key, first in self._first.items()
            if key not in self._times
        ]
        for which, observed in ((is_refined, timed), (~is_refined, [*timed, *refined])):
            group = [points[int(place)] for place in np.flatnonzero(which)]
            mean[which], sd[which] = self._believed_after(observed, group)
        return mean + self._faults_of(points), sd

    def least_ms(self, points: Sequence[Point]) -> list[float]:
        """Return the lower end of the 90 % interval of each time, after what was measured."""
        if not points:
            return []
        mean, sd = self.believed(points)
        return [float(low) for low in np.exp2(mean - _NINETY * sd)]

    def _residuals(self) -> list[tuple[Point, float]]:
        """Return the measured candidates, with r."""
        points = [self._points[key] for key in self._times]
        return [(point, math.log2(self._times[point.key]) - point.mean) for point in points]

    def _faults(self) -> dict[str, float]:
        """Return e of each variant that has one."""
        faults: dict[str, float] = {}
        for point, residual in self._residuals():
            if point.sd > 0:
                most = _FAULT_SDS * point.sd
                fault = residual - min(max(residual, -most), most)
                least = faults.get(point.variant, fault)
                faults[point.variant] = min(fault, least, key=abs) if fault * least > 0 else 0.0
        return faults

    def _faults_of(self, points: Sequence[Point]) -> Array:
        """Return e of each point: of its variant, else of the nearest that it was made of."""
        faults = self._faults()
        of_variant = {
            variant: next((faults[name] for name in self._lineage(variant) if name in faults), 0.0)
            for variant in {point.variant for point in points}
        }
        return np.array([of_variant[point.variant] for point in points])

    def _believed_after(
        self, observed: Sequence[tuple[Point, float, float]], points: Sequence[Point]
    ) -> tuple[Array, Array]:
        """Return mean and sd after observations: a point, its residual and its noise."""
        mean = np.array([point.mean for point in points])
        sd = np.array([point.sd for point in points])
        if not observed or not points:
            return mean, sd
        places = [point for point, _, _ in observed]
        residual, noise = np.array([row[1:] for row in observed]).T
        process = GaussianProcess(likeness(places, places, self._shares), noise**2)
        cross = likeness(points, places, self._shares).T
        shift, variance = process.posterior(residual, cross, sd**2)
        return mean + shift, np.sqrt(np.maximum(variance, 1e-12))

    def _joint_posterior(self, points: Sequence[Point]) -> tuple[Array, Array]:
        """Return mean and covariance of log2 of the times, after what was measured."""
        measured = [point for point, _ in self._residuals()]
        residual = np.array([r for _, r in self._residuals()]) - self._faults_of(measured)
        process = GaussianProcess(likeness(measured, measured, self._shares), _NOISE_LOG2**2)
        halves = process.solve_triangular_factor(likeness(points, measured, self._shares).T)
        mean = np.array([point.mean for point in points]) + self._faults_of(points)
        mean = mean + process.solve_triangular_factor(residual) @ halves
        covariance = likeness(points, points, self._shares) - halves.T @ halves
        errors = process.leave_one_out_errors(residual)
        return mean, covariance * max(float(errors.mean()), 1.0)

    # ------------------------------------------------------------------------------------- choice

    def _choose_best(self, remaining: list[Point]) -> Point:
        if self._order is Order.RANDOM:
            return self._random.choice(remaining)
        if self._choices % _EXPLORE_EVERY == 0 and (new := self._best_of_unmeasured(remaining)):
            return self._random.choice(new)
        ready, scored = {point.key for point in remaining}, self._scores()
        in_order = (scored.points[place] for place in scored.order)
        return next(point for point in in_order if point.key in ready)

    def _best_of_unmeasured(self, remaining: list[Point]) -> list[Point]:
        """Return the best candidate of each variant of which nothing was measured."""
        seen = {variant for variant, _ in self._asked}
        best: dict[str, Point] = {}
        for point in remaining:
            leader = best.get(point.variant)
            if point.variant not in seen and (leader is None or point.mean < leader.mean):
                best[point.variant] = point
        return list(best.values())

    def _improvements(self, remaining: Sequence[Point], mean: Array, sd: Array) -> Array:
        """Return the expected improvement on the best time, in log2, (points,)."""
        assert self.best_ms is not None
        ahead = math.log2(self.best_ms) - mean
        z = ahead / sd
        density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        works = np.array([self._works_chance(point) for point in remaining])
        return np.asarray(works * (ahead * self._ndtr(z) + sd * density))

    def _works_chance(self, point: Point) -> float:
        """Return the chance that a candidate works: less, the more of its variant failed.

        Laplace's rule of succession, with a success and no failure known beforehand.
        """
        failed = self._failed[point.variant]
        worked = sum(variant == point.variant for variant, _ in self._times) if failed else 0
        return (1 - point.p_fail) * (worked + 1) / (worked + failed + 1)

    def _succeeded(self, variant: str) -> bool:
        return any(timed == variant for timed, _ in self._times)


def likeness(rows: Sequence[Point], columns: Sequence[Point], shares: Shares) -> Array:
    """Return the kernel k(i, j) of errors, in squares of log2: an array of (rows, columns)."""
    numbers: dict[str, int] = {}  # of variants and parameters: texts take long to compare

    def pairs(compare: np.ufunc, value: Callable[[Point], float]) -> Array:
        return np.asarray(compare.outer([value(p) for p in rows], [value(p) for p in columns]))

    variant = pairs(np.equal, lambda p: numbers.setdefault(p.variant, len(numbers)))
    params = pairs(np.equal, lambda p: numbers.setdefault(p.key[1], len(numbers)))
    near = np.exp(-np.abs(pairs(np.subtract, lambda p: p.mean)) / _ALIKE_LOG2)
    alike = near * (_ALIKE_SHARE + (1.0 - _ALIKE_SHARE) * params)
    common = shares.problem + shares.variant * variant + shares.rest * alike
    return np.asarray(pairs(np.multiply, lambda p: p.sd) * common)
