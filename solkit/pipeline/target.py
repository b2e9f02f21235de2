"""The device that bounds, analysis and measurements are for."""

from __future__ import annotations

from dataclasses import replace

from solkit.core import Device, MeasureSettings
from solkit.errors import InputError, UnknownDeviceError
from solkit.roofline import devices as catalogue
from solkit.roofline import nvml
from solkit.roofline.calibration import calibrated

DEFAULT_DEVICE = "h100-sxm"
"""The target if none is named and the machine has no GPU."""

NO_GPU = f"No GPU here and no device named: bounds are for {DEFAULT_DEVICE}."
"""The note of such a target."""


def devices() -> tuple[Device, ...]:
    """Return every GPU of the catalogue, at its catalogued figures."""
    return catalogue.catalogue()


def named_device(device: str | Device) -> Device:
    """Return a device of the catalogue, with its calibration if there is one.

    Raises:
        InputError: `device` is neither a known name nor a device.
    """
    if isinstance(device, Device):
        return device
    if not isinstance(device, str):
        raise InputError(f"device: expected a name such as {DEFAULT_DEVICE!r}, got {device!r}")
    return calibrated(catalogue.find(device))


def target_device(device: str | Device | None, settings: MeasureSettings | None = None) -> Device:
    """Return the requested device, with live figures if this machine has that GPU.

    Args:
        device: a name, a device, or ``None`` for the first GPU here, else `DEFAULT_DEVICE`.
        settings: if `MeasureSettings.on` names a GPU of this machine, that is the target.

    Raises:
        InputError: as for `named_device`, or the GPU to measure on is of another model.
        UnknownDeviceError: no device is named, and the catalogue lacks the GPU of this machine; or
            there is no GPU of that number.
    """
    if settings is not None and settings.on is not None:
        return _measured_on(device, settings)
    try:
        live = nvml.live_devices()
    except UnknownDeviceError:  # an unknown GPU here does not prevent another target
        if device is None:
            raise
        live = ()
    if device is None and live:
        return calibrated(live[0], nvml.driver_version())
    if device is None:
        default = calibrated(catalogue.find(DEFAULT_DEVICE))
        return replace(default, notes=(*default.notes, NO_GPU))
    named = named_device(device)
    if named.source == "nvml":
        return named
    here = next((gpu for gpu in live if gpu.key == named.key), None)
    return named if here is None else calibrated(here, nvml.driver_version())


def _measured_on(device: str | Device | None, settings: MeasureSettings) -> Device:
    gpu = nvml.live_device(settings.gpu_index)
    if device is not None and (named := named_device(device)).key != gpu.key:
        raise InputError(f"{settings.on} is {gpu.name}, not the target {named.name}")
    return calibrated(gpu, nvml.driver_version())
