"""Data that the templates show; identifiers tie figures to their places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from solkit.core import Verdict
from solkit.report import charts
from solkit.report.diff import Group, compare_reports, source_diff
from solkit.report.html import _plotly
from solkit.report.launch_schema import LaunchJson
from solkit.report.overview import (
    NamedReport,
    Time,
    TimeOverview,
    expected_ms,
    launches_seen,
    modelled_ms,
    time_of,
    worst,
    worst_first,
)
from solkit.report.schema import DeviceJson, ReportJson, ResultJson
from solkit.report.source_lines import Line, lines
from solkit.report.sources import Source
from solkit.report.widgets import evidence_label


@dataclass(frozen=True)
class ShapeView:
    """One shape of a kernel."""

    id: str
    result: ResultJson
    time: Time | None
    modelled_ms: float | None
    expected_ms: float | None
    launches: list[LaunchJson]
    gap: charts.Gap | None
    is_worst: bool

    @property
    def gap_ratio(self) -> float | None:
        """Time over the speed of light; ``None`` if it has no time."""
        sol_ms = self.result.bound.time_ms
        return self.time.median_ms / sol_ms if self.time and sol_ms else None

    @property
    def moved(self) -> tuple[int, int] | None:
        """Bytes that all launches read from DRAM and write to it; ``None`` if unknown."""
        demands = [(launch.demand, launch.count) for launch in self.launches]
        modelled = [(demand, count) for demand, count in demands if demand is not None]
        if not modelled or len(modelled) < len(demands):
            return None
        read = sum(count * demand.dram_read_bytes for demand, count in modelled)
        return read, sum(count * demand.dram_write_bytes for demand, count in modelled)

    @property
    def longest_ms(self) -> float:
        """The time of a full bar."""
        times = [resource.time_ms or 0.0 for resource in self.result.bound.resources.values()]
        return max([*times, self.time.median_ms if self.time else 0.0, self.modelled_ms or 0.0])

    @property
    def evidence_label(self) -> str:
        """The label of the sentences that explain the verdict."""
        label = evidence_label(self.result.verdict, self.result.measurement is not None)
        return label.capitalize()


@dataclass(frozen=True)
class SourceView:
    """A source file, and what its lines cost."""

    source: Source
    lines: list[Line]

    @property
    def shapes(self) -> list[int]:
        """The shapes at which a line costs something."""
        return sorted({cost.shape for line in self.lines for cost in line.costs})


@dataclass(frozen=True)
class KernelView:
    """One report of the page."""

    id: str
    name: str
    report: ReportJson
    shapes: list[ShapeView]
    roofline: charts.Roofline
    sources: list[SourceView]
    standing: TimeOverview | None

    @property
    def verdicts(self) -> list[Verdict]:
        """The distinct verdicts of its shapes."""
        return list(dict.fromkeys(result.verdict for result in self.report.results))

    @property
    def rates(self) -> list[str]:
        """The sets of ceilings that the device has."""
        return [
            rates for rates in charts.RATES if any(r.rates == rates for r in self.roofline.roofs)
        ]


@dataclass(frozen=True)
class IndexRow:
    """One kernel of the index, and its cost over the largest one."""

    view: KernelView
    share: float


@dataclass(frozen=True)
class Diff:
    """Differences of the kernel's file from that of the first report."""

    name: str
    text: str


@dataclass(frozen=True)
class ComparisonView:
    """Shapes that reports share, each with the identifier of its figure."""

    groups: list[tuple[str, Group]]
    diffs: list[Diff]


def views(reports: Sequence[NamedReport]) -> list[KernelView]:
    """Return every report, worst first."""
    return [
        KernelView(
            id=f"k{i}",
            name=named.name,
            report=named.report,
            shapes=_shapes(f"k{i}", named.report),
            roofline=charts.roofline_of(named.report),
            sources=[
                SourceView(source, lines(source, named.report)) for source in named.report.sources
            ],
            standing=standing,
        )
        for i, (named, standing) in enumerate(worst_first(reports), 1)
    ]


def _shapes(kernel: str, report: ReportJson) -> list[ShapeView]:
    first = worst(report.results) if report.results else None
    return [
        ShapeView(
            id=f"{kernel}-s{i}",
            result=result,
            time=time_of(result),
            modelled_ms=modelled_ms(result),
            expected_ms=expected_ms(result),
            launches=launches_seen(result),
            gap=charts.gap_of(result),
            is_worst=result is first,
        )
        for i, result in enumerate(report.results, 1)
    ]


def gpus(reports: Sequence[NamedReport]) -> list[DeviceJson]:
    """Return the devices of the page, each once."""
    devices: list[DeviceJson] = []
    for named in reports:
        if named.report.device not in devices:
            devices.append(named.report.device)
    return devices


def index(kernels: Sequence[KernelView]) -> list[IndexRow]:
    """Return every kernel with its cost over the largest one."""
    largest = max((k.standing.cost_ms for k in kernels if k.standing), default=0.0)
    return [IndexRow(k, _share(k.standing, largest)) for k in kernels]


def _share(standing: TimeOverview | None, largest_ms: float) -> float:
    return max(0.0, standing.cost_ms) / largest_ms if standing and largest_ms > 0 else 0.0


def comparison(reports: Sequence[NamedReport]) -> ComparisonView | None:
    """Return what the reports share; ``None`` if nothing."""
    groups = compare_reports(reports)
    if not groups:
        return None
    compared = {entry.name for group in groups for entry in group.entries}
    named_reports = [named for named in reports if named.name in compared]
    diffs = [
        Diff(named.name, source_diff(named_reports[0].report, named.report))
        for named in named_reports[1:]
    ]
    return ComparisonView(
        [(f"c{i}", group) for i, group in enumerate(groups, 1)],
        [diff for diff in diffs if diff.text],
    )


def charts_of(
    kernels: Sequence[KernelView], compared: ComparisonView | None
) -> dict[str, _plotly.Spec]:
    """Return the figures of the page by identifier."""
    figures = {}
    for name, group in compared.groups if compared else ():
        times = charts.times_of(group)
        if times:
            figures[name] = _plotly.times_plot(times)
    for kernel in kernels:
        if kernel.roofline.points:
            figures[f"{kernel.id}-roofline"] = _plotly.roofline_plot(kernel.roofline)
        for shape in kernel.shapes:
            if shape.gap:
                figures[f"{shape.id}-gap"] = _plotly.gap_plot(shape.gap)
    return figures
