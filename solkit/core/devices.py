"""The GPU: its resources, and the rates that it cannot exceed."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class ClockKind(str, enum.Enum):
    """Kind of SM clock that a device's ceilings assume."""

    MAXIMUM = "maximum"
    """The highest clock that NVML allows: no kernel runs above it."""
    BOOST = "boost"
    """The vendor's boost clock. Cards may exceed it, so no time is called impossible."""


@dataclass(frozen=True)
class Ceiling:
    """A rate that a resource cannot exceed.

    Attributes:
        value: the rate, in `unit`.
        unit: ``"FLOP/s"``, ``"op/s"`` or ``"B/s"``.
        clock_mhz: the clock at which it holds (SM clock, or memory clock for DRAM).
        source: where the number comes from (datasheet, whitepaper, NVML, calibration).
    """

    value: float
    unit: str
    clock_mhz: float
    source: str


@dataclass(frozen=True)
class SMLimits:
    """Limits of one streaming multiprocessor (SM) or compute unit (CU).

    Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; the
    units of NVIDIA's allocations are those of its occupancy calculator (cuda_occupancy.h).

    Attributes:
        threads: resident threads.
        blocks: resident thread blocks.
        registers: 32-bit registers.
        shared_bytes: shared memory of all blocks together.
        shared_per_block_bytes: shared memory that one block may opt in to.
        reserved_shared_per_block_bytes: what the system takes from each block's share.
        warp_threads: threads of a warp, or of a wave.
        registers_unit: 32-bit registers of a warp come in multiples of this.
        shared_unit_bytes: shared memory of a block comes in multiples of this.
        l1_bytes: of an L1 apart from shared memory; 0 where that takes a part of it.
    """

    threads: int
    blocks: int
    registers: int
    shared_bytes: int
    shared_per_block_bytes: int
    reserved_shared_per_block_bytes: int
    warp_threads: int = 32
    registers_unit: int = 256
    shared_unit_bytes: int = 128
    l1_bytes: int = 0


@dataclass(frozen=True)
class Device:
    """One GPU, or one MIG slice of it.

    Attributes:
        key: the catalogue's name of the SKU, e.g. ``"h100-sxm"``.
        name: the marketing name; NVML's if the device was queried.
        source: ``"catalogue"`` or ``"nvml"``.
        compute_capability: (major, minor).
        sm_count: streaming multiprocessors available.
        clock_mhz: the SM clock behind `ceilings`.
        clock_kind: which clock that is.
        datasheet_clock_mhz: the SM clock behind `datasheet`.
        memory_bytes: DRAM capacity.
        l2_bytes: L2 capacity.
        limits: per-SM limits.
        ceilings: rates at `clock_mhz`. Keys: ``dram``, ``last_level``, ``l2`` (SM to L2), ``fp32``,
            ``fp16`` and ``bf16`` (packed), ``fp64``, ``int32``, ``sfu``, ``tensor.<dtype>`` (dense;
            fp32 or int32 accumulation), ``tensor.<dtype>_acc16`` (fp16 accumulation) and ``issue``
            (instructions that the schedulers issue to the scalar pipes). A pipe that the GPU lacks
            is absent.
        datasheet: the vendor's figures under the same keys.
        calibrated: rates that `solkit calibrate` measured on this GPU or one of its model, under
            the same keys and ``dram.read``, ``dram.copy``, ``dram.write``, ``l2.write``; empty if
            none.
        uuid: NVML's identifier of a live GPU, else ``None``.
        notes: what a reader must know (a MIG slice, ECC off, a substituted clock).
        launch_us: time of one empty kernel's launch in a CUDA graph, if measured.
        vendor: ``"NVIDIA"``, or ``"AMD"``, where an SM is a compute unit (CU).
        last_level_bytes: a cache that all of L2 shares, between it and DRAM; 0 if there is none.
        unproven: keys of `ceilings` that no measurement confirms; the hard bound does without.
        architecture: the catalogue's name of its architecture, e.g. ``"sm_90"``, ``"gfx942"``.
    """

    key: str
    name: str
    source: str
    compute_capability: tuple[int, int]
    sm_count: int
    clock_mhz: float
    clock_kind: ClockKind
    datasheet_clock_mhz: float
    memory_bytes: int
    l2_bytes: int
    limits: SMLimits
    ceilings: Mapping[str, Ceiling]
    datasheet: Mapping[str, Ceiling]
    calibrated: Mapping[str, Ceiling] = field(default_factory=dict)
    uuid: str | None = None
    notes: tuple[str, ...] = ()
    launch_us: float | None = None
    vendor: str = "NVIDIA"
    last_level_bytes: int = 0
    unproven: tuple[str, ...] = ()
    architecture: str = ""

    @property
    def cached_bytes(self) -> int:
        """Bytes of the largest cache: as much output need not reach DRAM within a kernel."""
        return max(self.l2_bytes, self.last_level_bytes)
