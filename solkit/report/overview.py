"""The time of each shape of a report, and which of many kernels to look at first.

Notation
    t       the time of a shape: measured if that counts, else expected
    t_sol   the roofline of that shape
    cost    the sum over a kernel's shapes of t (1 - t_sol / t) = t - t_sol
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from solkit.core import Result, Verdict
from solkit.core.values import finite_or_none
from solkit.report.launch_schema import LaunchJson
from solkit.report.schema import ReportJson, ResultJson
from solkit.roofline.kernel import gap

COST_FORMULA = "cost = sum over shapes of time × (1 − SOL / time) = time − SOL"


@dataclass(frozen=True)
class Time:
    """Time of a call.

    Attributes:
        median_ms: measured, or expected by the surrogate, else by the kernel model.
        low_ms, high_ms: 95 % confidence interval; 90 % of a forecast; `median_ms` if modelled.
        measured: which of the two.
    """

    median_ms: float
    low_ms: float
    high_ms: float
    measured: bool


@dataclass(frozen=True)
class NamedReport:
    """A report with a name that is unique on its page."""

    name: str
    report: ReportJson


@dataclass(frozen=True)
class TimeOverview:
    """A kernel's times over all of its shapes that have one.

    Attributes:
        sol_ms: the sum of their rooflines.
        time_ms: the sum of their times.
        measured: whether all of them were measured.
        shapes: how many.
    """

    sol_ms: float
    time_ms: float
    measured: bool
    shapes: int

    @property
    def cost_ms(self) -> float:
        """Time that the speed of light would save in one call of each shape."""
        return self.time_ms - self.sol_ms

    @property
    def gap(self) -> float:
        """Time over the speed of light."""
        return self.time_ms / self.sol_ms if self.sol_ms else float("inf")


def time_of(result: ResultJson) -> Time | None:
    """Return the time of a shape; ``None`` if missing, or the candidate failed or is impossible."""
    if result.verdict.is_failure or result.verdict is Verdict.IMPOSSIBLE:
        return None
    timed = result.measurement
    if timed and timed.median_ms is not None:
        median = timed.median_ms
        return Time(median, timed.low_ms or median, timed.high_ms or median, measured=True)
    expected, forecast = expected_ms(result), result.forecast
    if expected is None:
        return None
    if forecast is None or expected != forecast.time_ms or forecast.abstains:
        return Time(expected, expected, expected, measured=False)
    low_ms, high_ms = forecast.low_ms or expected, forecast.high_ms or expected
    return Time(expected, low_ms, high_ms, measured=False)


def expected_ms(result: Result | ResultJson) -> float | None:
    """Return the one time that is expected: the surrogate's, else the kernel model's."""
    forecast = result.forecast
    if forecast is not None and forecast.time_ms is not None and not forecast.abstains:
        return forecast.time_ms
    return modelled_ms(result)


def modelled_ms(result: Result | ResultJson) -> float | None:
    """Return the modelled time of a call: all its launches, and never below the hard bound."""
    if result.gap and not result.gap.measured:
        return result.gap.time_ms
    if isinstance(result, Result):
        return gap.modelled_ms(result.analysis.kernels, result.bound)
    times = [
        (launch.count, finite_or_none(launch.model.time_ms) if launch.model else None)
        for launch in result.launches
    ]
    if not times or any(time_ms is None for _, time_ms in times):
        return None
    return max(sum(n * time_ms for n, time_ms in times if time_ms), result.bound.at.hard or 0.0)


def launches_seen(result: ResultJson) -> list[LaunchJson]:
    """Return the analysed launches, or those of the real run if analysis captured none."""
    return result.launches or (result.measurement.launches if result.measurement else [])


def worst(results: Sequence[ResultJson]) -> ResultJson:
    """Return the shape to look at first: one that failed, else the one with the largest gap."""
    return max(results, key=_badness)


def _badness(result: ResultJson) -> tuple[int, float]:
    if result.verdict.is_failure or result.verdict is Verdict.IMPOSSIBLE:
        return 1, 0.0
    time, sol_ms = time_of(result), result.bound.time_ms
    return 0, time.median_ms / sol_ms if time and sol_ms else 0.0


def standing(report: ReportJson) -> TimeOverview | None:
    """Return a kernel's standing; ``None`` if no shape has a time."""
    timed = [
        (time, result.bound.time_ms)
        for result in report.results
        if (time := time_of(result)) is not None and result.bound.time_ms is not None
    ]
    if not timed:
        return None
    return TimeOverview(
        sol_ms=sum(sol_ms for _, sol_ms in timed),
        time_ms=sum(time.median_ms for time, _ in timed),
        measured=all(time.measured for time, _ in timed),
        shapes=len(timed),
    )


def worst_first(reports: Iterable[NamedReport]) -> list[tuple[NamedReport, TimeOverview | None]]:
    """Sort reports by falling cost (see the notation above), then those without a time."""
    placed = [(named, standing(named.report)) for named in reports]
    return sorted(placed, key=lambda pair: -pair[1].cost_ms if pair[1] else float("inf"))


def file_name(name: str) -> str:
    """Return a report's name as a valid file name."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-.") or "kernel"


def named(reports: Sequence[ReportJson], files: Sequence[str] = ()) -> list[NamedReport]:
    """Give each report a unique name: the kernel's, with the file's if kernels share a name.

    Args:
        reports: in the order of the page.
        files: the file of each report, if it was read from one.
    """
    kernels = [report.kernel.name for report in reports]
    names: list[str] = []
    for i, name in enumerate(kernels):
        if kernels.count(name) > 1:
            name = f"{name} ({files[i]})" if files else f"{name} ({reports[i].kernel.path})"
        names.append(name if name not in names else f"{name} #{i + 1}")
    return [NamedReport(name, report) for name, report in zip(names, reports, strict=True)]
