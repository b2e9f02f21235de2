"""The GPUs of a machine and of the catalogue, and calibrations; JSON ``solkit.devices/1``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from solkit.core import Ceiling, ClockKind, Device
from solkit.core.codec import json_value, to_json
from solkit.report import calibration
from solkit.report.tables import table_without_lines
from solkit.report.widgets import print_plainly
from solkit.roofline.calibration import Calibration, doubts
from solkit.roofline.devices import aliases

_TENSOR = ("tensor.fp16", "tensor.bf16", "tensor.tf32", "tensor.fp8")
_MEASURED = (
    "TB/s of DRAM and L2 and dense TFLOP/s, the highest that `solkit calibrate` measured. The "
    "`calibrated` bound uses your newest calibration of a model, else one shipped with SolKit."
)
Measured = Sequence[tuple[Calibration, str]]
"""Calibrations, each with who made it."""

_WIDE = 120  # columns that names and aliases need
_LEGEND = (
    "TB/s of DRAM and dense TFLOP/s of the tensor cores at the SM clock shown: max is the highest "
    "that NVML allows, boost the vendor's. --device takes a key, an alias or NVML's name."
)


def render(
    catalogue: Sequence[Device], live: Sequence[Device], console: Console, measured: Measured = ()
) -> None:
    """Print the GPUs of this machine, the catalogue, and calibrations with their origins."""
    wide = console.width >= _WIDE
    here: RenderableType = _table(live, wide) if live else Text("no GPU that SolKit can use")
    notes = [Text(f"{d.key}: {note}", style="yellow") for d in live for note in d.notes]
    page = (
        Text("In this machine", style="bold"),
        here,
        *notes,
        Text("\nCatalogue", style="bold"),
        _table(catalogue, wide),
        Text(f"\n{_LEGEND}", style="dim"),
        *_calibrations(measured, catalogue),
    )
    print_plainly(Group(*page), console)


def dumps(catalogue: Sequence[Device], live: Sequence[Device], measured: Measured = ()) -> str:
    """Return the same as JSON text in ASCII; each device with its aliases and ceilings."""
    lists = {"machine": live, "catalogue": catalogue}
    described = {name: [_described(d) for d in some] for name, some in lists.items()}
    described["calibrations"] = [
        {"from": origin, **to_json(calibrated, complete=True)} for calibrated, origin in measured
    ]
    return json.dumps({"schema": "solkit.devices/1", **described}, indent=2, allow_nan=False)


def _calibrations(measured: Measured, catalogue: Sequence[Device]) -> Iterator[RenderableType]:
    if measured:
        yield Text("\nCalibrations", style="bold")
        yield calibration.calibrations_table(measured)
        yield from (Text(doubt, style="yellow") for doubt in _doubts(measured, catalogue))
        yield Text(f"\n{_MEASURED}", style="dim")


def _doubts(measured: Measured, catalogue: Sequence[Device]) -> Iterator[str]:
    """Yield errors of the catalogue that calibrations show: rates above its ceilings."""
    by_key = {device.key: device for device in catalogue}
    for calibrated, _ in measured:
        if calibrated.gpu.key in by_key:
            excesses = doubts(calibrated, by_key[calibrated.gpu.key])
            yield from (
                f"{calibrated.gpu.key} {calibrated.created:%Y-%m-%d}: {doubt}" for doubt in excesses
            )


def _table(devices: Iterable[Device], wide: bool) -> Table:
    numbers = ("CC", "SMs", "MHz", "TB/s", "fp16", "bf16", "tf32", "fp8")
    rows = table_without_lines(["key"], numbers, ("name", "aliases") if wide else (), style="bold")
    for device in devices:
        rows.add_row(*(Text(cell) for cell in _cells(device, wide)))
    return rows


def _cells(device: Device, wide: bool) -> list[str]:
    major, minor = device.compute_capability
    clock = "max" if device.clock_kind is ClockKind.MAXIMUM else "boost"
    rates = [_tera(device.ceilings.get(name)) for name in ("dram", *_TENSOR)]
    named = [device.name, ", ".join(_aliases(device))] if wide else []
    mhz = f"{device.clock_mhz:.0f} {clock}"
    capability = f"{major}.{minor}" if device.vendor == "NVIDIA" else device.vendor
    return [device.key, capability, str(device.sm_count), mhz, *rates, *named]


def _tera(ceiling: Ceiling | None) -> str:
    if ceiling is None:
        return "-"
    tera = ceiling.value / 1e12
    return f"{tera:.0f}" if tera >= 100 else f"{tera:.3g}"


def _aliases(device: Device) -> list[str]:
    return [name for name in aliases(device.key) if name != device.name]


def _described(device: Device) -> dict[str, Any]:
    return {
        "key": device.key,
        "name": device.name,
        "aliases": _aliases(device),
        "vendor": device.vendor,
        "source": device.source,
        "compute_capability": device.compute_capability,
        "sm_count": device.sm_count,
        "clock_mhz": device.clock_mhz,
        "clock_kind": device.clock_kind.value,
        "datasheet_clock_mhz": device.datasheet_clock_mhz,
        "memory_bytes": device.memory_bytes,
        "l2_bytes": device.l2_bytes,
        "last_level_bytes": device.last_level_bytes,
        "limits": to_json(device.limits, complete=True),
        "ceilings": json_value(device.ceilings, complete=True),
        "datasheet": json_value(device.datasheet, complete=True),
        "uuid": device.uuid,
        "notes": list(device.notes),
    }
