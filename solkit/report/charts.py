"""Content of the figures, as numbers.

`solkit.report.figures` draws them as PNG and SVG, `solkit.report.html` on a page.

Roofline
    After Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for
    multicore architectures", CACM 52(4), 2009. A shape's point lies at

        x = operations of its busiest pipe / bytes that must cross DRAM
        y = those operations / time

    At the speed of light it touches the roof that limits it: slanted for a memory (y = x times its
    bandwidth), level for a pipe.

Gap
    Factors multiply, so bars lie end to end on a logarithmic axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from solkit.core import Ceiling
from solkit.core.values import finite_or_none
from solkit.report.diff import Group
from solkit.report.overview import Time, modelled_ms, time_of
from solkit.report.schema import DeviceJson, ReportJson, ResourceJson, ResultJson
from solkit.report.units import TELLING, format_ratio, shape_words, signed_duration

_MEMORIES = ("dram", "last_level", "l2")
_ROOM = 3.0
RATES = ("roofline", "datasheet", "calibrated")
"""The sets of ceilings: at the highest clock, the vendor's, and measured by calibration."""


@dataclass(frozen=True)
class Roof:
    """One ceiling.

    Attributes:
        name: the resource's, with the passes that precision needs, e.g. ``"tensor.tf32 / 3"``.
        rates: its set: one of `RATES`.
        value: per second, in `unit`.
        unit: ``"FLOP/s"``, ``"op/s"`` or ``"B/s"``.
        source: where the value comes from.
        used: whether a shape uses it.
    """

    name: str
    rates: str
    value: float
    unit: str
    source: str
    used: bool

    @property
    def is_memory(self) -> bool:
        """True if it is the roof of a memory, which slants."""
        return self.unit == "B/s"


@dataclass(frozen=True)
class Point:
    """One shape under its roofs.

    Attributes:
        shape: in words.
        kind: ``"SOL"``, ``"modelled"`` or ``"measured"``.
        pipe: whose operations count.
        intensity: operations per byte of DRAM traffic.
        rate: operations per second.
        time_ms: its time.
    """

    shape: str
    kind: str
    pipe: str
    intensity: float
    rate: float
    time_ms: float


@dataclass(frozen=True)
class Roofline:
    """All shapes of a kernel under the ceilings of a device.

    Attributes:
        device: its name.
        unit: of the operations: ``"FLOP"``, or ``"op"`` if pipes of other kinds are used.
        roofs: of every set of rates.
        points: of every shape that computes something and moves bytes.
        left_out: the other shapes.
    """

    device: str
    unit: str
    roofs: tuple[Roof, ...]
    points: tuple[Point, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One factor of a gap, and the time over SOL before and after it.

    Attributes:
        name: of the factor.
        factor: it multiplies the time by this.
        start, end: the product before and after it.
        cost_ms: the time that it adds.
        evidence, advice: sentences.
    """

    name: str
    factor: float
    start: float
    end: float
    cost_ms: float
    evidence: str
    advice: str

    @property
    def kind(self) -> str:
        """``"loss"``, ``"gain"``, or ``"none"`` if the factor rounds to 1.00."""
        if abs(self.factor - 1) < 0.005:
            return "none"
        return "loss" if self.factor > 1 else "gain"

    @property
    def words(self) -> str:
        """The factor and its cost, e.g. ``"1.20×  +26.5 µs"``."""
        factor = format_ratio(self.factor)
        return factor if self.kind == "none" else f"{factor}  {signed_duration(self.cost_ms)}"


@dataclass(frozen=True)
class Gap:
    """A time over the speed of light, step by step."""

    sol_ms: float
    time_ms: float
    measured: bool
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Times:
    """The times of several candidates at one shape."""

    shape: str
    sol_ms: float
    names: tuple[str, ...]
    times: tuple[Time, ...]


# --------------------------------------------------------------------------------- roofline


def roofline_of(report: ReportJson) -> Roofline:
    """Return the roofline of all shapes of a report; without points if none computes anything."""
    points = tuple(point for result in report.results for point in _points(result))
    placed = {point.shape for point in points}
    shapes = [shape_words(result.shape) for result in report.results]
    used = _used(report.results)
    units = {used[point.pipe].unit for point in points}
    return Roofline(
        device=report.device.name,
        unit=units.pop() if len(units) == 1 else "op",
        roofs=tuple(_roofs(report.device, used)),
        points=points,
        left_out=tuple(shape for shape in shapes if shape not in placed),
    )


def _points(result: ResultJson) -> Iterator[Point]:
    resources = result.bound.resources
    pipe = _busiest_pipe(resources)
    dram_bytes = result.work.dram_bytes
    if pipe is None or not dram_bytes:
        return
    operations = resources[pipe].amount
    time = time_of(result)
    times = {
        "SOL": result.bound.time_ms,
        "modelled": modelled_ms(result),
        "measured": time.median_ms if time and time.measured else None,
    }
    for kind, time_ms in times.items():
        if time_ms:
            place = (operations / dram_bytes, 1e3 * operations / time_ms)
            yield Point(shape_words(result.shape), kind, pipe, *place, time_ms)


def _busiest_pipe(resources: Mapping[str, ResourceJson]) -> str | None:
    pipes = {n: r.time_ms or 0.0 for n, r in resources.items() if n not in (*_MEMORIES, "issue")}
    return max(pipes, key=pipes.__getitem__) if pipes else None


def _used(results: Sequence[ResultJson]) -> dict[str, ResourceJson]:
    """Return the resources of all shapes by name."""
    return {name: r for result in results for name, r in result.bound.resources.items()}


def _roofs(device: DeviceJson, used: Mapping[str, ResourceJson]) -> Iterator[Roof]:
    for name in sorted(used.keys() - device.ceilings.keys()):  # "tensor", or an older report
        resource = used[name]
        if resource.ceiling:
            yield Roof(
                name, RATES[0], resource.ceiling, f"{resource.unit}/s", resource.source, True
            )
    for rates, ceilings in zip(RATES, (device.ceilings, device.datasheet, device.calibrated)):
        for name, ceiling in ceilings.items():
            passes = _passes(used.get(name), device.ceilings.get(name))
            is_roof = (
                name in device.ceilings and name != "issue"
            )  # no mix, no count of instructions
            if finite_or_none(ceiling.value) and is_roof:
                label = name if passes == 1 else f"{name} / {passes}"
                value = ceiling.value / passes
                yield Roof(label, rates, value, ceiling.unit, ceiling.source, name in used)


def _passes(resource: ResourceJson | None, ceiling: Ceiling | None) -> int:
    """Return how often operands pass through a pipe for the precision: 3 for exact tf32."""
    if not (resource and resource.ceiling and ceiling and finite_or_none(ceiling.value)):
        return 1
    return max(1, round(ceiling.value / resource.ceiling))


def intensities(chart: Roofline) -> tuple[float, float]:
    """Return the horizontal axis's ends: all points and used roofs' ridges, with room."""
    places = [point.intensity for point in chart.points]
    places += [_ridge(r, chart) for r in chart.roofs if r.used and not r.is_memory]
    return min(places) / _ROOM, max(places) * _ROOM


def rates(chart: Roofline) -> tuple[float, float]:
    """Return the vertical axis's ends: all points and the roofs of all used pipes, with room."""
    places = [point.rate for point in chart.points]
    places += [roof.value for roof in chart.roofs if roof.used and not roof.is_memory]
    return min(places) / _ROOM, max(places) * _ROOM


def span(
    roof: Roof, chart: Roofline, low: float, high: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ends of a roof as ``(x, x), (y, y)``.

    A memory's roof ends at the highest used pipe. A pipe's roof starts where DRAM can feed it.
    """
    if roof.is_memory:
        pipes = [r.value for r in chart.roofs if r.used and not r.is_memory]
        end = min(high, max(pipes) / roof.value) if pipes else high
        return (low, end), (roof.value * low, roof.value * end)
    start = min(max(low, _ridge(roof, chart)), high)
    return (start, high), (roof.value, roof.value)


def between(one: float, other: float) -> float:
    """Return a point on a logarithmic axis, nearer to the first: the place of a roof's label."""
    return math.pow(one, 0.6) * math.pow(other, 0.4)


def _ridge(roof: Roof, chart: Roofline) -> float:
    """Return the intensity at which DRAM just feeds a pipe, both at rates of the same set."""
    drams = {r.rates: r.value for r in chart.roofs if r.name == "dram"}
    dram = drams.get(roof.rates, drams.get(RATES[0]))
    return roof.value / dram if dram else chart.points[0].intensity


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers for a logarithmic axis, more of them if it is short."""
    decades = math.log10(high / low)
    steps: tuple[float, ...] = (1,)
    if decades < 0.15:
        steps = tuple(
            hundredths / 100 for hundredths in range(100, 1000, 2 if decades < 0.05 else 5)
        )
    elif decades < 0.7:
        steps = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 7)
    elif decades < 3:
        steps = (1, 2, 5)
    tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{step}e{ten}") for ten in tens for step in steps]
    return [tick for tick in ticks if low <= tick <= high]


# -------------------------------------------------------------------------- gap and times


def gap_of(result: ResultJson) -> Gap | None:
    """Return the gap of one shape, step by step; ``None`` if it was not split into factors.

    Factors that round to 1.00 are left out.
    """
    gap = result.gap
    if gap is None or not gap.sol_ms or gap.time_ms is None:
        return None
    steps, product = [], 1.0
    for factor_row in gap.factors:
        factor = factor_row.factor if factor_row.factor else 1.0
        if abs(factor - 1) < TELLING:
            continue
        end = product * factor
        cost_ms = gap.sol_ms * (end - product)
        steps.append(
            Step(
                factor_row.name,
                factor,
                product,
                end,
                cost_ms,
                factor_row.evidence,
                factor_row.advice,
            )
        )
        product = end
    return Gap(gap.sol_ms, gap.time_ms, gap.measured, tuple(steps))


def times_of(group: Group) -> Times | None:
    """Return the times of a comparison; ``None`` if no candidate has one."""
    timed = [(entry.name, entry.time) for entry in group.entries if entry.time]
    if not timed:
        return None
    return Times(
        shape=shape_words(group.shape),
        sol_ms=group.sol_ms,
        names=tuple(name for name, _ in timed),
        times=tuple(time for _, time in timed),
    )
