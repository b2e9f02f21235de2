"""The GPUs that SolKit knows: `catalogue.toml`, validated and turned into `Device`s.

Notation::

    ceiling(pipe) = rate(pipe) [per clock per SM] × SMs × SM clock
    ceiling(dram) = memory clock × transfers per memory clock × bus width / 8

Rates belong to a SKU and an accumulator type; the catalogue has their units and sources.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from solkit.core import Ceiling, ClockKind, Device, SMLimits
from solkit.core.codec import from_json
from solkit.core.toml import tomllib
from solkit.errors import UnknownDeviceError

Pipe = Literal[
    "l2",
    "fp32",
    "fp16",
    "bf16",
    "fp64",
    "int32",
    "sfu",
    "issue",
    "tensor.fp16",
    "tensor.bf16",
    "tensor.tf32",
    "tensor.fp8",
    "tensor.fp4",
    "tensor.fp64",
    "tensor.int8",
    "tensor.int4",
    "tensor.fp16_acc16",
    "tensor.fp8_acc16",
]
"""A key of `Device.ceilings` that runs at the SM clock; only ``dram`` does not."""

_BEYOND_BOOST = 1.5
"""More than any board's highest clock over the boost clock that its vendor names: 1980 over 1830
MHz on an H100 SXM, about 2800 over 2520 MHz on an RTX 4090."""

_STRICT = {"extra": "forbid"}  # for the test that finds misspelt keys in the TOML

_OP_PIPES = ("int32", "sfu", "issue", "tensor.int8", "tensor.int4")
_MEMORIES = ("dram", "last_level")  # neither runs at the SM clock
_BYTE_PIPES = ("dram", "l2", "last_level")


# ------------------------------------------------------------------------ the TOML's own shape


@dataclass(frozen=True)
class Architecture:
    """Properties that all GPUs of one compute capability share.

    Attributes:
        compute_capability: (major, minor).
        fp32_lanes: fp32 ("CUDA") cores per SM, which is what NVML counts.
        limits: per-SM limits.
        rates: FLOP, op or B per clock per SM.
        sources: of the rates, by pipe; ``tensor`` stands for all tensor pipes.
        unproven: pipes whose rate is not measured yet, so that it enables no `impossible`.
        vendor: who makes these GPUs.
    """

    compute_capability: tuple[int, int]
    fp32_lanes: int
    limits: SMLimits
    rates: dict[Pipe, float]
    sources: dict[Pipe | Literal["tensor"], str]
    unproven: tuple[Pipe, ...] = ()
    vendor: Literal["NVIDIA", "AMD"] = "NVIDIA"

    __pydantic_config__ = _STRICT


@dataclass(frozen=True)
class DatasheetException:
    """Vendor's figures that differ from rate × SMs × datasheet clock.

    Attributes:
        pipes: keys of `Sku.datasheet`.
        cause: why.
        clock_mhz: the SM clock at which they agree, if published.
    """

    pipes: tuple[Pipe | Literal["dram"], ...]
    cause: str
    clock_mhz: float | None = None

    __pydantic_config__ = _STRICT


@dataclass(frozen=True)
class Sku:
    """One product in the catalogue. Field names end in their unit.

    Attributes:
        name: the marketing name, mostly NVML's.
        architecture: key of the architecture, e.g. ``"sm_90"``.
        sm_count: streaming multiprocessors.
        datasheet_clock_mhz: the SM clock behind `datasheet`.
        memory_type: e.g. ``"hbm3"``.
        memory_gib: DRAM capacity.
        memory_clock_mhz: the highest memory clock, in NVML's counting.
        memory_bus_bits: memory bus width.
        l2_mib: L2 capacity.
        source: of these figures.
        datasheet: the vendor's figures, 1e12 FLOP/s, op/s or B/s.
        datasheet_exceptions: those that differ from the rates.
        max_sm_clock_mhz: the highest SM clock that NVML allows; ``None`` or 0 if unknown (0 where
            the GPU that this one is like has one).
        aliases: further names.
        rates: those that differ from the architecture's.
        lacks: pipes of the architecture that this SKU lacks, or has at an unknown rate.
        launch_us: the time to launch an empty kernel, if measured on this SKU.
        last_level_mib: capacity of a cache between L2 and DRAM; 0 where there is none.
        last_level_tera: its rate, 1e12 B/s.
    """

    name: str
    architecture: str
    sm_count: int
    datasheet_clock_mhz: float
    memory_type: str
    memory_gib: float
    memory_clock_mhz: float
    memory_bus_bits: int
    l2_mib: float
    source: str
    datasheet: dict[Pipe | Literal["dram"], float]
    datasheet_exceptions: tuple[DatasheetException, ...] = ()
    max_sm_clock_mhz: float | None = None
    aliases: tuple[str, ...] = ()
    rates: dict[Pipe, float] = field(default_factory=dict)
    lacks: tuple[Pipe, ...] = ()
    launch_us: float | None = None
    last_level_mib: float = 0.0
    last_level_tera: float = 0.0

    __pydantic_config__ = _STRICT

    def hardware(self) -> Hardware:
        """Return the catalogue's figures of a whole GPU."""
        has_clock = bool(self.max_sm_clock_mhz)
        return Hardware(
            name=self.name,
            sm_count=self.sm_count,
            sm_clock_mhz=self.max_sm_clock_mhz or self.datasheet_clock_mhz,
            clock_kind=ClockKind.MAXIMUM if has_clock else ClockKind.BOOST,
            memory_clock_mhz=self.memory_clock_mhz,
            memory_bus_bits=self.memory_bus_bits,
            memory_bytes=round(self.memory_gib * 2**30),
        )


@dataclass(frozen=True)
class _Catalogue:
    """The whole file. Its fields are the names of TOML's tables."""

    transfers_per_memory_clock: int
    sources: dict[Pipe, str]
    architecture: dict[str, Architecture]
    device: dict[str, Sku]

    __pydantic_config__ = _STRICT


@dataclass(frozen=True)
class Hardware:
    """The figures of one GPU that a driver knows better than the catalogue.

    Attributes:
        name: in the source.
        sm_count: streaming multiprocessors available.
        sm_clock_mhz: the SM clock for the ceilings.
        clock_kind: the kind of that clock.
        memory_clock_mhz: the highest memory clock.
        memory_bus_bits: bus width of the whole GPU.
        memory_bytes: DRAM available.
        memory_share: share of bandwidth and L2; below 1 for a MIG slice.
    """

    name: str
    sm_count: int
    sm_clock_mhz: float
    clock_kind: ClockKind
    memory_clock_mhz: float
    memory_bus_bits: int
    memory_bytes: int
    memory_share: float = 1.0


@functools.cache
def _load() -> _Catalogue:
    """Read ``catalogue.toml``; a test checks its keys.

    Raises:
        ValueError: a value is missing, or has a wrong type.
    """
    return from_json(_Catalogue, _read_tables())


def _read_tables() -> dict[str, Any]:
    """Return the TOML's tables, each device's with what it has of another one."""
    raw: dict[str, Any] = tomllib.loads(
        Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    )
    raw["device"] = {key: _inherit(raw["device"], key) for key in raw["device"]}
    return raw


def _inherit(tables: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a device's table, with the figures that it lacks from the table that it is `like`."""
    own = dict(tables[key])
    if "like" not in own:
        return own
    base = _inherit(tables, own.pop("like"))
    for figure in ("aliases", "launch_us"):  # of that SKU only
        base.pop(figure, None)
    figures = {**base["datasheet"], **own.get("datasheet", {})}
    own["datasheet"] = {k: v for k, v in figures.items() if k not in own.get("lacks", ())}
    return {**base, **own}


# ---------------------------------------------------------------------------- devices from it


def catalogue() -> tuple[Device, ...]:
    """Return every catalogued GPU, in the catalogue's order.

    Ceilings are for the highest SM clock that NVML allows (`ClockKind.MAXIMUM`) if it is publicly
    known, else for the vendor's boost clock (`ClockKind.BOOST`).
    """
    return tuple(_catalogued(key) for key in _load().device)


def find(name: str) -> Device:
    """Return the catalogued GPU of that name.

    Case, spaces, hyphens, "NVIDIA" and the like do not matter; a memory size or type may be
    added, and must then be right. A short name such as ``h100`` means what `aliases` says.

    Raises:
        UnknownDeviceError: no catalogued GPU has that name; the message has the near ones.
    """
    return _catalogued(find_sku(name)[0])


def catalogue_key(name: str) -> str:
    """Return the key of the catalogued GPU of that name; the name itself if there is none."""
    try:
        return find(name).key
    except UnknownDeviceError:
        return name


def namesakes(name: str) -> tuple[Device, ...]:
    """Return every catalogued GPU that somebody may call so, the one that `find` returns first.

    A key and a marketing name mean one GPU; ``h100`` may be an H100 SXM, PCIe or NVL.

    Raises:
        UnknownDeviceError: as for `find`.
    """
    key, sku = find_sku(name)
    requested = _spelling(name)
    if requested in (_spelling(key), _spelling(sku.name)):
        return (_catalogued(key),)
    others = [
        _catalogued(other)
        for other in _load().device
        if other != key
        and set(requested.words) <= set(_spelling(other).words)
        and requested.memory <= _own_memory(other)
    ]
    return (_catalogued(key), *others)


def aliases(key: str) -> tuple[str, ...]:
    """Return the names of a catalogued GPU besides its key and name: ``("h100", ...)``.

    Raises:
        UnknownDeviceError: the catalogue lacks `key`.
    """
    return find_sku(key)[1].aliases


def with_clock(device: Device, sm_clock_mhz: float) -> Device:
    """Return the same device with its ceilings at another SM clock.

    The memory behind L2, the datasheet and the calibration stay as they are.

    Args:
        device: any device.
        sm_clock_mhz: the SM clock, e.g. during a measurement.
    """
    ceilings = {
        key: ceiling
        if key in _MEMORIES
        else replace(
            ceiling,
            value=ceiling.value * sm_clock_mhz / ceiling.clock_mhz,
            clock_mhz=sm_clock_mhz,
            source=f"{ceiling.source}; scaled to {sm_clock_mhz:g} MHz",
        )
        for key, ceiling in device.ceilings.items()
    }
    return replace(device, clock_mhz=sm_clock_mhz, ceilings=ceilings)


def at_any_clock(device: Device) -> Device:
    """Return the same device with ceilings that no board of its model exceeds.

    Ceilings at the highest clock are those. Where it is not known, they are `_BEYOND_BOOST` times
    as high; but stacked memory (HBM) runs at the one clock that the vendor sets.
    """
    if device.clock_kind is ClockKind.MAXIMUM:
        return device
    fast = with_clock(device, _BEYOND_BOOST * device.clock_mhz)
    if find_sku(device.key)[1].memory_type.startswith("hbm"):
        return fast
    dram = fast.ceilings["dram"]
    raised = replace(dram, value=_BEYOND_BOOST * dram.value)
    return replace(fast, ceilings={**fast.ceilings, "dram": raised})


@functools.cache
def _catalogued(key: str) -> Device:
    return assemble(key, _load().device[key].hardware(), source="catalogue")


def assemble(
    key: str, hardware: Hardware, source: str, uuid: str | None = None, notes: tuple[str, ...] = ()
) -> Device:
    """Build a `Device` from a SKU's rates and one GPU's figures.

    Args:
        key: the SKU's key in the catalogue.
        hardware: this GPU's figures, from the catalogue or NVML.
        source: ``"catalogue"`` or ``"nvml"``.
        uuid: NVML's identifier.
        notes: for the reader.
    """
    sku = _load().device[key]
    architecture = architecture_of(sku)
    return Device(
        key=key,
        name=hardware.name,
        source=source,
        compute_capability=architecture.compute_capability,
        sm_count=hardware.sm_count,
        clock_mhz=hardware.sm_clock_mhz,
        clock_kind=hardware.clock_kind,
        datasheet_clock_mhz=sku.datasheet_clock_mhz,
        memory_bytes=hardware.memory_bytes,
        l2_bytes=round(sku.l2_mib * 2**20 * hardware.memory_share),
        limits=architecture.limits,
        ceilings={
            "dram": _dram(sku, hardware),
            **_last_level(sku),
            **_pipes(sku, architecture, hardware),
        },
        datasheet=_datasheet(sku, hardware),
        uuid=uuid,
        notes=notes,
        launch_us=sku.launch_us,
        vendor=architecture.vendor,
        last_level_bytes=round(sku.last_level_mib * 2**20),
        unproven=architecture.unproven,
        architecture=sku.architecture,
    )


def _dram(sku: Sku, hardware: Hardware) -> Ceiling:
    transfers = _load().transfers_per_memory_clock
    clock, bits = hardware.memory_clock_mhz, hardware.memory_bus_bits
    share = "" if hardware.memory_share == 1 else f" × {hardware.memory_share:g} (MIG)"
    return Ceiling(
        value=clock * 1e6 * transfers * bits / 8 * hardware.memory_share,
        unit="B/s",
        clock_mhz=clock,
        source=f"{clock:g} MHz × {transfers} × {bits} bit{share} ({sku.source})",
    )


def _last_level(sku: Sku) -> dict[str, Ceiling]:
    """Return the ceiling of a cache between L2 and DRAM; empty where there is none."""
    if not sku.last_level_mib:
        return {}
    return {
        "last_level": Ceiling(
            value=sku.last_level_tera * 1e12,
            unit="B/s",
            clock_mhz=sku.datasheet_clock_mhz,
            source=sku.source,
        )
    }


def _pipes(sku: Sku, architecture: Architecture, hardware: Hardware) -> dict[str, Ceiling]:
    """Ceilings of everything that runs at the SM clock."""
    citations: dict[Any, str] = {
        **_load().sources,
        **architecture.sources,
        **dict.fromkeys(sku.rates, sku.source),
    }
    rates = {**architecture.rates, **sku.rates}
    sms, clock = hardware.sm_count, hardware.sm_clock_mhz
    unit = "CU" if architecture.vendor == "AMD" else "SM"
    return {
        pipe: Ceiling(
            value=rate * sms * clock * 1e6,
            unit=_unit(pipe),
            clock_mhz=clock,
            source=f"{rate:g} {_amount(pipe)}/clk/{unit} × {sms} {unit}s × {clock:g} MHz "
            f"({_citation(pipe, citations)})",
        )
        for pipe, rate in rates.items()
        if pipe not in sku.lacks
    }


def _citation(pipe: Pipe, citations: Mapping[Any, str]) -> str:
    return citations[pipe] if pipe in citations else citations[pipe.split(".")[0]]


def _datasheet(sku: Sku, hardware: Hardware) -> dict[str, Ceiling]:
    """Return the vendor's figures, reduced to a MIG slice's share of SMs and memory."""
    clocks = {
        pipe: exception.clock_mhz
        for exception in sku.datasheet_exceptions
        for pipe in exception.pipes
        if exception.clock_mhz is not None
    }
    clocks["dram"] = sku.memory_clock_mhz
    sm_share = hardware.sm_count / sku.sm_count
    return {
        pipe: Ceiling(
            value=tera * 1e12 * (hardware.memory_share if pipe == "dram" else sm_share),
            unit=_unit(pipe),
            clock_mhz=clocks.get(pipe, sku.datasheet_clock_mhz),
            source=sku.source,
        )
        for pipe, tera in sku.datasheet.items()
    }


def _unit(pipe: str) -> str:
    return f"{_amount(pipe)}/s"


def _amount(pipe: str) -> str:
    if pipe in _BYTE_PIPES:
        return "B"
    return "op" if pipe in _OP_PIPES else "FLOP"


# ------------------------------------------------------------------------------ forgiving names

_NOISE = re.compile(
    r"\b(nvidia|amd|instinct|tesla|geforce|tensor core|gpu|graphics card|generation)\b"
)
_MEMORY = re.compile(r"\b(\d+) ?gi?b\b|\b(hbm\d\w?|gddr\dx?)\b")
_WORD = re.compile(r"[a-z]+|\d+")


@dataclass(frozen=True)
class _Spelling:
    """A name in a forgiving form: ``"NVIDIA H100 80GB HBM3"`` and ``"h100-80gb hbm3"`` agree.

    Attributes:
        words: runs of letters and runs of digits, sorted.
        memory: capacities and memory types that the name mentions.
    """

    words: tuple[str, ...]
    memory: frozenset[str]


def _spelling(name: str) -> _Spelling:
    text = _NOISE.sub(" ", re.sub(r"[\W_]+", " ", name.lower()))
    memory = frozenset(f"{m[1]}gb" if m[1] else m[2] for m in _MEMORY.finditer(text))
    return _Spelling(tuple(sorted(_WORD.findall(_MEMORY.sub(" ", text)))), memory)


@functools.cache
def _spellings() -> tuple[tuple[_Spelling, str], ...]:
    """Return every spelling in the catalogue with its key: keys, names and aliases."""
    return tuple(
        (_spelling(name), key)
        for key, sku in _load().device.items()
        for name in (key, sku.name, *sku.aliases)
    )


def find_sku(name: str) -> tuple[str, Sku]:
    """Key and catalogue entry of the GPU of that name; see `find`.

    Raises:
        UnknownDeviceError: no catalogued GPU has that name; the message has similar ones.
    """
    requested = _spelling(name)
    same_words = [
        (spelling, key) for spelling, key in _spellings() if spelling.words == requested.words
    ]
    exact = {key for spelling, key in same_words if spelling.memory == requested.memory}
    keys = exact or {
        key
        for spelling, key in same_words
        if requested.memory <= spelling.memory | _own_memory(key)
    }
    if len(keys) != 1:
        raise UnknownDeviceError(_unknown(name, keys))
    key = keys.pop()
    return key, _load().device[key]


def architecture_of(sku: Sku) -> Architecture:
    """Return the architecture of `sku` in the catalogue."""
    return _load().architecture[sku.architecture]


def _own_memory(key: str) -> set[str]:
    sku = _load().device[key]
    return {f"{sku.memory_gib:g}gb", sku.memory_type}


def _unknown(name: str, ambiguous: set[str]) -> str:
    near = sorted(ambiguous) or _similar_device_keys(name)
    hint = f"; near it: {', '.join(near)}" if near else ""
    return f"unknown device {name!r}{hint} (`solkit devices` lists all that are known)"


def _similar_device_keys(name: str) -> list[str]:
    """Up to four keys whose spelling resembles `name`, nearest first."""

    def flat(text: str) -> str:
        return re.sub(r"[\W_]+", "", _NOISE.sub("", text.lower()))

    by_text: dict[str, str] = {}
    for key, sku in _load().device.items():
        for spelled in (*sku.aliases, key, sku.name):
            by_text.setdefault(flat(spelled), key)
    matches = difflib.get_close_matches(flat(name), by_text, n=8, cutoff=0.55)
    return list(dict.fromkeys(by_text[match] for match in matches))[:4]
