"""A calibration as a terminal page: measured rates beside the analytic peaks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from solkit.core import Device
from solkit.report import units
from solkit.report.tables import table_without_lines
from solkit.report.widgets import print_plainly
from solkit.roofline.calibration import Calibration, Reading, Regime, doubts

_SINGLE = (Regime.WARM, Regime.CLEAN, Regime.DIRTY)
_OVERVIEW = ("dram", "l2", "fp32", "tensor.bf16", "tensor.tf32", "tensor.fp8")
_LEGEND = (
    "peak: analytic, at the maximum clock. burst: 1 ms after a rest, with its SM clock. sustained: "
    "for a second, with the clock, power and limits that NVML reported."
)


def render(calibration: Calibration, device: Device, console: Console) -> None:
    """Print a calibration beside the analytic peaks of its GPU."""
    print_plainly(Group(*_calibration_page(calibration, device)), console)


def calibrations_table(calibrations: Iterable[tuple[Calibration, str]]) -> Table:
    """Return a row per calibration, with its origin and highest end-to-end rates."""
    names = ("TB/s", "L2", "fp32", "bf16", "tf32", "fp8")
    table = table_without_lines(["key"], names, ["measured", "driver", "from"], style="bold")
    for calibration, origin in calibrations:
        rates = [_highest_rate(calibration, ceiling) for ceiling in _OVERVIEW]
        created = f"{calibration.created:%Y-%m-%d}" + (" (quick)" if calibration.quick else "")
        table.add_row(calibration.gpu.key, *rates, created, calibration.software.driver, origin)
    return table


def _highest_rate(calibration: Calibration, ceiling: str) -> str:
    rates = [reading.value for reading in calibration.readings if reading.ceiling == ceiling]
    return _format_tera(max(rates)) if rates else "-"


def _calibration_page(calibration: Calibration, device: Device) -> Iterator[RenderableType]:
    gpu, software = calibration.gpu, calibration.software
    yield Text.assemble((gpu.name, "bold"), f"  {' '.join(gpu.notes)}")
    yield Text(
        f"{calibration.created:%Y-%m-%d %H:%M} UTC · {calibration.seconds:.0f} s · driver "
        f"{software.driver} · torch {software.torch} · triton {software.triton}\n",
        style="dim",
    )
    yield _ceilings_table(calibration, device)
    yield Text(f"\n{_LEGEND}\n", style="dim")
    yield from _bandwidths(calibration)
    yield from (Text(line) for line in _launch_lines(calibration.readings))
    yield from (Text(doubt, style="bold red") for doubt in doubts(calibration, device))
    yield from (Text(warning, style="yellow") for warning in calibration.warnings)
    for name, reason in calibration.skipped.items():
        yield Text(f"{name} was not measured: {reason}", style="yellow")


# --------------------------------------------------------------------------------- tables


def _ceilings_table(calibration: Calibration, device: Device) -> Table:
    numbers = ("peak", "burst", "", "MHz", "sustained", "", "MHz", "W")
    table = table_without_lines(["T.../s"], numbers, ["held by"], style="bold")
    for name in dict.fromkeys(r.name for r in calibration.readings if r.ceiling is not None):
        burst = calibration.find(name, Regime.BURST)
        sustained = calibration.find(name, Regime.SUSTAINED)
        table.add_row(name, *_ceiling_row(burst, sustained, device))
    return table


def _ceiling_row(burst: Reading | None, sustained: Reading | None, device: Device) -> list[str]:
    either = burst or sustained
    assert either is not None
    assert either.ceiling is not None
    ceiling = device.ceilings.get(either.ceiling)
    peak = ceiling.value if ceiling else None
    seen = sustained.conditions if sustained else None
    reasons = seen.reasons if seen else {}
    return [
        _format_tera(peak) if peak else "-",
        *_format_rate(burst, peak),
        *_format_rate(sustained, peak),
        f"{seen.power_w:.0f}" if seen and seen.power_w is not None else "-",
        ", ".join(f"{name} {share:.0%}" for name, share in reasons.items()),
    ]


def _format_rate(reading: Reading | None, peak: float | None) -> tuple[str, str, str]:
    if reading is None:
        return "-", "", "-"
    share = f"{100 * reading.value / peak:.0f} %" if peak else ""
    clock = f"{reading.sm_clock_mhz:.0f}" if reading.sm_clock_mhz is not None else "-"
    return _format_tera(reading.value), share, clock


def _bandwidths(calibration: Calibration) -> Iterator[RenderableType]:
    """Single launches by size, grouped by what ran before; then L2 by size."""
    singles = [reading for reading in calibration.readings if reading.regime in _SINGLE]
    if singles:
        yield Text("TB/s of single launches, by MiB read and written", style="bold")
        for regime in _SINGLE:
            yield Text(f"after: {regime.value}", style="dim")
            yield _rates_by_size([r for r in singles if r.regime is regime])
        yield Text()
    l2 = [reading for reading in calibration.readings if reading.name.startswith("l2.")]
    if l2:
        yield Text("TB/s of L2, by MiB read repeatedly", style="bold")
        yield _rates_by_size(l2)
        yield Text()


def _rates_by_size(readings: Sequence[Reading]) -> Table:
    """Return a row per kind, a column per size to the nearest power of two."""
    sizes = sorted({_size_in_mib(reading) for reading in readings})
    table = table_without_lines([""], [f"{size:g}" for size in sizes], style="bold")
    for name in dict.fromkeys(reading.name for reading in readings):
        rates = {_size_in_mib(r): f"{r.value / 1e12:.2f}" for r in readings if r.name == name}
        table.add_row(name, *(rates.get(size, "-") for size in sizes))
    return table


def _size_in_mib(reading: Reading) -> float:
    mib = (reading.size_bytes or 0) / 2**20
    return round(mib, 2) if mib < 1 else round(mib, 1) if mib < 10 else float(round(mib))


def _launch_lines(readings: Sequence[Reading]) -> Iterator[str]:
    for reading in readings:
        if reading.unit == "s":
            yield f"{reading.name}: {units.duration(reading.value * 1e3)} ({reading.detail})"


def _format_tera(value: float) -> str:
    tera = value / 1e12
    return f"{tera:.0f}" if tera >= 1000 else f"{tera:.4g}" if tera >= 1 else f"{tera:.3g}"
