"""Which calibration applies to a device, and what of it is to be believed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from solkit.core import Ceiling, ClockKind, Device
from solkit.roofline.calibration import store
from solkit.roofline.calibration.record import Calibration, Reading, Regime

__all__ = ["Chosen", "calibrated", "choose", "excesses"]

_END_TO_END = (Regime.BURST, Regime.SUSTAINED)


@dataclass(frozen=True)
class Chosen:
    """The calibration that applies to a device.

    Attributes:
        calibration: the record.
        is_own: whether the user measured it; else it ships with SolKit.
    """

    calibration: Calibration
    is_own: bool


def choose(device: Device) -> Chosen | None:
    """The newest calibration of a GPU of the same model: the user's own before a shipped one.

    Among the user's own, one of this very GPU goes before others. One of a MIG slice applies to
    slices of as many SMs alone.
    """
    own = [each for each in store.own()[0] if _fits(each, device)]
    if own:
        return Chosen(next((c for c in own if c.gpu.uuid == device.uuid), own[0]), True)
    shipped = [each for each in store.shipped() if _fits(each, device)]
    return Chosen(shipped[0], False) if shipped else None


def calibrated(device: Device, driver: str | None = None) -> Device:
    """The device with measured ceilings, as far as there are any.

    Each is the highest of the end-to-end rates, in bursts or sustained. A rate above the analytic
    peak is left out, and a note says so: the catalogue or its clock must be wrong.

    Args:
        device: from the catalogue or NVML.
        driver: the driver of this machine, where the device is in it: a note says where the
            calibration is of another one.
    """
    chosen = choose(device)
    if chosen is None:
        return device
    record = chosen.calibration
    launch = record.find("launch.graph", Regime.QUEUED)
    notes = [_about_excess(reading, device) for reading in excesses(record, device)]
    if driver is not None and driver != record.software.driver:
        notes.append(_about_driver(chosen, driver))
    return replace(
        device,
        calibrated={name: _ceiling(best, record) for name, best in _best(record, device).items()},
        launch_us=device.launch_us if launch is None else launch.value * 1e6,
        notes=(*device.notes, *notes),
    )


def excesses(calibration: Calibration, device: Device) -> tuple[Reading, ...]:
    """Readings above the analytic peak of their pipe, which nothing may be."""
    return tuple(r for r in calibration.readings if _exceeds(r, device))


def _fits(calibration: Calibration, device: Device) -> bool:
    gpu = calibration.gpu
    return gpu.key == device.key and gpu.sm_count == device.sm_count


def _exceeds(reading: Reading, device: Device) -> bool:
    peak = None if reading.ceiling is None else device.ceilings.get(reading.ceiling)
    return peak is not None and reading.value > peak.value


def _best(calibration: Calibration, device: Device) -> dict[str, Reading]:
    """The highest believable end-to-end reading of each ceiling that the device has."""
    best: dict[str, Reading] = {}
    for reading in _believable(calibration, device):
        assert reading.ceiling is not None
        known = best.get(reading.ceiling)
        if known is None or reading.value > known.value:
            best[reading.ceiling] = reading
    return best


def _believable(calibration: Calibration, device: Device) -> Iterator[Reading]:
    for reading in calibration.readings:
        known = reading.regime in _END_TO_END and reading.ceiling in device.ceilings
        if known and not _exceeds(reading, device):
            yield reading


def _ceiling(reading: Reading, calibration: Calibration) -> Ceiling:
    gpu, made = calibration.gpu, calibration.software
    is_memory = reading.ceiling == "dram"
    clock = gpu.max_memory_clock_mhz if is_memory else reading.sm_clock_mhz
    return Ceiling(
        value=reading.value,
        unit=reading.unit,
        clock_mhz=clock or gpu.max_sm_clock_mhz,
        source=f"measured {calibration.created:%Y-%m-%d} on {gpu.name}, driver {made.driver}: "
        f"{reading.name}, {reading.regime.value}",
    )


def _about_excess(reading: Reading, device: Device) -> str:
    assert reading.ceiling is not None
    peak = device.ceilings[reading.ceiling]
    of_memory = reading.ceiling == "dram"
    kind = "maximum" if of_memory or device.clock_kind is ClockKind.MAXIMUM else "boost"
    return (
        f"Calibration: {reading.name} ({reading.regime.value}) was measured at "
        f"{reading.value / 1e12:.4g} T{reading.unit}, above the analytic peak of "
        f"{peak.value / 1e12:.4g} at the {kind} clock of {peak.clock_mhz:g} MHz. It is not used: "
        "the catalogue or the clock is wrong."
    )


def _about_driver(chosen: Chosen, driver: str) -> str:
    made = chosen.calibration.software.driver
    whose = "is of driver" if chosen.is_own else "ships with SolKit and is of driver"
    return (
        f"The calibration used {whose} {made}, this machine runs {driver}: `solkit calibrate` "
        "makes one of its own."
    )
