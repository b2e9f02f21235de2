"""The GPUs of this machine, from NVML, the driver's management library.

Rates per clock come from the catalogue; SM count, clocks, bus width and memory from the driver.
Every call goes to the module that `_nvml_bindings` returns, so that a test can replace
it by a recording.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from solkit.core import ClockKind, Device
from solkit.errors import UnknownDeviceError, UnsupportedError
from solkit.roofline.devices import Hardware, Sku, architecture_of, assemble, find_sku

_MEMORY_SLICES = 8  # of a GPU that can be divided: NVIDIA MIG User Guide, "GPU instance profiles"


def live_devices() -> tuple[Device, ...]:
    """Return the GPUs that CUDA sees here, in CUDA's order; empty without a driver.

    ``CUDA_VISIBLE_DEVICES`` is honoured. Without it MIG slices come before whole GPUs, as CUDA
    takes the first slice if there is one (MIG User Guide, "CUDA visible devices").

    Raises:
        UnknownDeviceError: the catalogue lacks a visible GPU.
        UnsupportedError: there is a driver, but NVML fails.
    """
    with _nvml_session() as library:
        return (
            ()
            if library is None
            else tuple(_read_device(library, u) for u in _visible_units(library))
        )


def live_device(index: int = 0) -> Device:
    """Return the GPU that CUDA calls ``cuda:<index>``.

    Raises:
        UnknownDeviceError: the machine or the catalogue lacks it.
        UnsupportedError: there is a driver, but NVML fails.
    """
    with _nvml_session() as library:
        units = [] if library is None else _visible_units(library)
        if 0 <= index < len(units):
            return _read_device(library, units[index])
        names = [f"{i}: {library.nvmlDeviceGetName(unit.handle)}" for i, unit in enumerate(units)]
    there_is = f"there is {', '.join(names)}" if names else "NVML sees none"
    raise UnknownDeviceError(f"no GPU {index} in this machine: {there_is}")


def driver_version() -> str | None:
    """Return the NVIDIA driver's version; ``None`` without a working driver."""
    try:
        with _nvml_session() as library:
            return None if library is None else str(library.nvmlSystemGetDriverVersion())
    except UnsupportedError:
        return None


def _nvml_bindings() -> Any:
    """Return the NVML bindings: the one seam between this module and the driver."""
    import pynvml

    return pynvml


@contextlib.contextmanager
def _nvml_session() -> Iterator[Any]:
    """NVML between init and shutdown, or ``None`` if the machine has no NVIDIA driver."""
    library = _nvml_bindings()
    try:
        library.nvmlInit()
    except (library.NVMLError_LibraryNotFound, library.NVMLError_DriverNotLoaded):
        yield None
        return
    except library.NVMLError as error:
        raise UnsupportedError(f"NVML does not start: {error}") from error
    try:
        yield library
    except library.NVMLError as error:
        raise UnsupportedError(f"NVML failed: {error}") from error
    finally:
        library.nvmlShutdown()


# ---------------------------------------------------------------------------- which, in order


@dataclass(frozen=True)
class _Unit:
    """A device for CUDA: a whole GPU, or a MIG slice of the GPU `parent`."""

    handle: Any
    parent: Any | None = None


def _visible_units(library: Any) -> list[_Unit]:
    """Return the units that CUDA sees, in its order."""
    gpus = _in_cuda_order(library)
    slices = [_mig_slices(library, gpu) for gpu in gpus]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        whole = [_Unit(gpu) for gpu, parts in zip(gpus, slices, strict=True) if parts is None]
        return [part for parts in slices for part in parts or ()] + whole
    # a GPU in MIG mode stands for its first slice, or for nothing without slices
    ordinals = [
        [_Unit(gpu)] if parts is None else parts[:1]
        for gpu, parts in zip(gpus, slices, strict=True)
    ]
    by_uuid = {library.nvmlDeviceGetUUID(gpu): o for gpu, o in zip(gpus, ordinals, strict=True)}
    for part in (part for parts in slices for part in parts or ()):
        by_uuid[library.nvmlDeviceGetUUID(part.handle)] = [part]
    return _select_visible(visible, ordinals, by_uuid)


def _select_visible(
    visible: str, ordinals: list[list[_Unit]], by_uuid: dict[str, list[_Unit]]
) -> list[_Unit]:
    """Return the units that ``CUDA_VISIBLE_DEVICES=wanted`` leaves visible.

    An entry that names nothing hides itself and all later ones (CUDA C++ Programming Guide, "CUDA
    Environment Variables"); a repeated one hides everything, in torch.cuda too.
    """
    units: list[_Unit] = []
    for entry in (part.strip() for part in visible.split(",")):
        if re.fullmatch(r"\d+", entry):
            named = ordinals[int(entry)] if int(entry) < len(ordinals) else []
        else:
            is_uuid = entry.startswith(("GPU-", "MIG-"))
            matches = [u for uuid, u in by_uuid.items() if uuid.startswith(entry)]
            named = matches[0] if is_uuid and len(matches) == 1 else []
        if not named:
            break
        if named[0] in units:
            return []
        units += named
    return units


def _in_cuda_order(library: Any) -> list[Any]:
    """Return handles of all GPUs as CUDA numbers them.

    CUDA puts the fastest first by default; NVML orders by PCI bus.
    """
    count = library.nvmlDeviceGetCount()
    handles = [library.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
    if os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return handles
    return sorted(
        handles, key=lambda handle: -_cores_times_clock(library, handle)
    )  # stable among equals


def _cores_times_clock(library: Any, handle: Any) -> int:
    """Cores × clock, for CUDA's FASTEST_FIRST, whose own heuristic is not documented."""
    try:
        clock = library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_SM)
        return int(library.nvmlDeviceGetNumGpuCores(handle) * clock)
    except _refusals(library):
        return 0


def _mig_slices(library: Any, gpu: Any) -> list[_Unit] | None:
    """Return the MIG slices of a GPU; ``None`` if it is not in MIG mode."""
    try:
        if library.nvmlDeviceGetMigMode(gpu)[0] != library.NVML_DEVICE_MIG_ENABLE:
            return None
    except _refusals(library):
        return None
    slices = []
    for index in range(library.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        with contextlib.suppress(library.NVMLError_NotFound):  # there may be gaps
            slices.append(_Unit(library.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index), gpu))
    return slices


def _refusals(library: Any) -> tuple[type[Exception], ...]:
    """Return the errors that NVML raises for a figure that this GPU, driver or user cannot have."""
    return (
        library.NVMLError_NotSupported,
        library.NVMLError_FunctionNotFound,
        library.NVMLError_NoPermission,
    )


# --------------------------------------------------------------------------------- one device


@dataclass
class _Reader:
    """Asks NVML for figures of one GPU and notes refusals."""

    library: Any
    handle: Any
    notes: list[str] = field(default_factory=list)

    def ask(self, what: str, function: str, *args: int, otherwise: Any) -> Any:
        """Return a figure from NVML, else from the catalogue, with a note."""
        try:
            return getattr(self.library, function)(self.handle, *args)
        except _refusals(self.library):
            self.notes.append(f"NVML does not report the {what}: taken from the catalogue.")
            return otherwise

    def tell(self, function: str) -> Any:
        """Return a figure that the catalogue lacks; ``None`` if NVML refuses it."""
        try:
            return getattr(self.library, function)(self.handle)
        except _refusals(self.library):
            return None


def _read_device(library: Any, unit: _Unit) -> Device:
    """Build the `Device` of a GPU or of a MIG slice."""
    gpu = unit.handle if unit.parent is None else unit.parent
    reader = _Reader(library, gpu)
    key, sku = find_sku(library.nvmlDeviceGetName(gpu))
    hardware = _whole_gpu_figures(reader, sku)
    _describe(reader)
    if unit.parent is not None:
        hardware = _mig_slice_figures(reader, unit, hardware)
    uuid = str(library.nvmlDeviceGetUUID(unit.handle))
    return assemble(key, hardware, source="nvml", uuid=uuid, notes=tuple(reader.notes))


def _whole_gpu_figures(reader: _Reader, sku: Sku) -> Hardware:
    """Return the figures of the whole GPU."""
    catalogued = sku.hardware()
    lanes, library = architecture_of(sku).fp32_lanes, reader.library
    cores = reader.ask(
        "SM count", "nvmlDeviceGetNumGpuCores", otherwise=catalogued.sm_count * lanes
    )
    clock = "nvmlDeviceGetMaxClockInfo"
    sm_mhz = reader.ask("maximum SM clock", clock, library.NVML_CLOCK_SM, otherwise=None)
    memory = reader.ask("memory size", "nvmlDeviceGetMemoryInfo", otherwise=None)
    return replace(
        catalogued,
        name=str(library.nvmlDeviceGetName(reader.handle)),
        sm_count=cores // lanes,
        sm_clock_mhz=float(sm_mhz or catalogued.sm_clock_mhz),
        clock_kind=ClockKind.MAXIMUM if sm_mhz else catalogued.clock_kind,
        memory_clock_mhz=float(
            reader.ask(
                "maximum memory clock",
                clock,
                library.NVML_CLOCK_MEM,
                otherwise=catalogued.memory_clock_mhz,
            )
        ),
        memory_bus_bits=reader.ask(
            "memory bus width", "nvmlDeviceGetMemoryBusWidth", otherwise=catalogued.memory_bus_bits
        ),
        memory_bytes=int(memory.total) if memory else catalogued.memory_bytes,
    )


def _describe(reader: _Reader) -> None:
    """Note what affects speed but is not in `Hardware`: power limit and ECC."""
    milliwatts = reader.tell("nvmlDeviceGetPowerManagementLimit")
    if milliwatts is not None:
        reader.notes.append(f"Power limit {milliwatts / 1000:g} W.")
    ecc = reader.tell("nvmlDeviceGetEccMode")
    if ecc is not None:
        enabled = ecc[0] == reader.library.NVML_FEATURE_ENABLED
        reader.notes.append(f"ECC {'on' if enabled else 'off'}.")


def _mig_slice_figures(reader: _Reader, unit: _Unit, whole: Hardware) -> Hardware:
    """Return a MIG slice's part of `whole`: its SMs, and eighths of the memory."""
    attributes = reader.library.nvmlDeviceGetAttributes(unit.handle)
    memory_bytes = attributes.memorySizeMB * 2**20
    eighths = max(1, round(_MEMORY_SLICES * memory_bytes / whole.memory_bytes))
    reader.notes.append(
        f"A MIG slice: {attributes.multiprocessorCount} of {whole.sm_count} SMs, and "
        f"{eighths}/{_MEMORY_SLICES} of the bandwidth and of L2, by its share of the memory."
    )
    return replace(
        whole,
        name=str(reader.library.nvmlDeviceGetName(unit.handle)),
        sm_count=attributes.multiprocessorCount,
        memory_bytes=memory_bytes,
        memory_share=eighths / _MEMORY_SLICES,
    )
