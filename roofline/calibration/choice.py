"""Choice of the calibration for a device, and of its credible figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from solkit.core import Ceiling, Device
from solkit.roofline.calibration import store
from solkit.roofline.calibration.record import Calibration, Reading, Regime

_MIXES = ("read", "copy", "write")
_END_TO_END = (Regime.BURST, Regime.SUSTAINED)
_COUNTING_ERROR = 1.002  # of the SM clock, by a global timer that ticks every us of about 1 ms


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
    """Return the newest calibration of a GPU of the same model; the user's own go first.

    Among the user's own, one of this very GPU is preferred. That of a MIG slice applies only to
    slices with as many SMs.
    """
    own = [candidate for candidate in store.own()[0] if _fits(candidate, device)]
    if own:
        return Chosen(next((c for c in own if c.gpu.uuid == device.uuid), own[0]), True)
    shipped = [candidate for candidate in store.shipped() if _fits(candidate, device)]
    return Chosen(shipped[0], False) if shipped else None


def calibrated(device: Device, driver: str | None = None) -> Device:
    """Return the device with its measured ceilings, where there are any.

    Each is the highest of the end-to-end rates, in bursts or sustained, that is not above the
    analytic peak (`doubts` reports those). DRAM's rates of reads, copies and writes are there as
    ``dram.read``, ``dram.copy`` and ``dram.write``, L2's of writes as ``l2.write``.

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
    differs = driver not in (None, record.software.driver)
    notes = (_about_driver(chosen, str(driver)),) if differs else ()
    return replace(
        device,
        calibrated={
            name: _ceiling(best, record)
            for name, best in {
                **_best(record, device),
                **_mixes(record, device),
                **_l2_writes(record, device),
            }.items()
        },
        launch_us=device.launch_us if launch is None else launch.value * 1e6,
        notes=(*device.notes, *notes),
    )


def doubts(calibration: Calibration, device: Device) -> tuple[str, ...]:
    """Return a sentence per cause of readings above the analytic peak of their pipe."""
    clocks = [r.sm_clock_mhz or 0.0 for r in calibration.readings if r.regime is Regime.BURST]
    causes: dict[str, dict[str, float]] = {}
    for reading in calibration.readings:
        if _exceeds(reading, device):
            excess = _share(reading, device) - 1
            above = causes.setdefault(_cause(reading, device, max(clocks, default=0.0)), {})
            above[reading.name] = max(excess, above.get(reading.name, 0.0))
    return tuple(
        f"{', '.join(above)}: measured up to {100 * max(above.values()):.1f} % above the analytic "
        f"peak, and not used: {cause}."
        for cause, above in causes.items()
    )


def _fits(calibration: Calibration, device: Device) -> bool:
    gpu = calibration.gpu
    return gpu.key == device.key and gpu.sm_count == device.sm_count


def _exceeds(reading: Reading, device: Device) -> bool:
    return reading.ceiling in device.ceilings and _share(reading, device) > 1


def _share(reading: Reading, device: Device) -> float:
    """Return the reading over the analytic peak."""
    assert reading.ceiling is not None
    return reading.value / device.ceilings[reading.ceiling].value


def _best(calibration: Calibration, device: Device) -> dict[str, Reading]:
    """Return the highest credible end-to-end reading of each of the device's ceilings."""
    best: dict[str, Reading] = {}
    for reading in _believable(calibration, device):
        assert reading.ceiling is not None
        highest = best.get(reading.ceiling)
        if highest is None or reading.value > highest.value:
            best[reading.ceiling] = reading
    return best


def _mixes(calibration: Calibration, device: Device) -> dict[str, Reading]:
    """DRAM's highest rates of reads alone, writes alone and both alike, where all are known."""
    mixes: dict[str, Reading] = {}
    for reading in _believable(calibration, device):
        highest = mixes.get(f"dram.{reading.name}")
        if reading.ceiling == "dram" and (highest is None or reading.value > highest.value):
            mixes[f"dram.{reading.name}"] = reading
    return mixes if {f"dram.{mix}" for mix in _MIXES} <= set(mixes) else {}


def _l2_writes(calibration: Calibration, device: Device) -> dict[str, Reading]:
    """L2's highest rate of writes, which is about half of that of reads."""
    writes = [r for r in _believable(calibration, device) if r.name == "l2.write" and r.ceiling]
    return {"l2.write": max(writes, key=lambda r: r.value)} if writes else {}


def _believable(calibration: Calibration, device: Device) -> Iterator[Reading]:
    for reading in (*calibration.readings, *_issued(calibration.readings)):
        is_comparable = reading.regime in _END_TO_END and reading.ceiling in device.ceilings
        if is_comparable and not _exceeds(reading, device):
            yield reading


def _issued(readings: Iterable[Reading]) -> Iterator[Reading]:
    """Rates of the schedulers, from fp32's: a multiply-add is one instruction."""
    for reading in readings:
        if reading.ceiling == "fp32":
            yield replace(reading, ceiling="issue", unit="op/s", value=reading.value / 2)


def _ceiling(reading: Reading, calibration: Calibration) -> Ceiling:
    gpu, software = calibration.gpu, calibration.software
    is_memory = reading.ceiling == "dram"
    clock = gpu.max_memory_clock_mhz if is_memory else reading.sm_clock_mhz
    return Ceiling(
        value=reading.value,
        unit=reading.unit,
        clock_mhz=clock or gpu.max_sm_clock_mhz,
        source=f"measured {calibration.created:%Y-%m-%d} on {gpu.name}, driver {software.driver}: "
        f"{reading.name}, {reading.regime.value}",
    )


def _cause(reading: Reading, device: Device, highest_mhz: float) -> str:
    """Return the SM clock, if a counted one explains the excess; else the catalogue."""
    assert reading.ceiling is not None
    expected_mhz = device.ceilings[reading.ceiling].clock_mhz
    by_clock = highest_mhz / expected_mhz * _COUNTING_ERROR
    if reading.ceiling != "dram" and _share(reading, device) <= by_clock:
        return f"the SM clock ran at up to {highest_mhz:.0f} MHz, not {expected_mhz:g}"
    return f"the catalogue's rate or clock of {reading.ceiling} is wrong"


def _about_driver(chosen: Chosen, driver: str) -> str:
    used = chosen.calibration.software.driver
    origin = "is of driver" if chosen.is_own else "ships with SolKit and is of driver"
    return (
        f"The calibration used {origin} {used}, this machine runs {driver}: `solkit calibrate` "
        "makes one of its own."
    )
