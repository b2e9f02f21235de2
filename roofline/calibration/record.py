"""The record of one calibration, ``solkit.calibration/1``.

Fields may be added, with defaults; none is ever renamed.

::

    Calibration ─┬─ gpu: Gpu, software: Software, idle: Conditions
                 └─ readings: Reading ── conditions: Conditions
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from solkit.core import Conditions

SCHEMA: Final = "solkit.calibration/1"


Timer = Literal["cupti", "events", "wall"]
"""The source of times: CUPTI's activity records, CUDA events, or the host's clock."""


class Regime(str, enum.Enum):
    """The state of the GPU while a reading was taken."""

    BURST = "burst"
    """Launches end to end for about 1 ms, each time after 0.1 s of rest: the state for a short
    kernel, before the power limit lowers the clock."""
    SUSTAINED = "sustained"
    """Launches end to end for about a second, of which the second half counts: a long run."""
    WARM = "warm L2"
    """Single launches, each after one on the same buffers."""
    CLEAN = "L2 flushed by reads"
    """Single launches, each after a large buffer was read: L2 holds clean lines of others."""
    DIRTY = "L2 flushed by writes"
    """Single launches, each after a large buffer was written, which adds the write-back to DRAM."""
    QUEUED = "queued"
    """Many launches of an empty kernel, queued ahead, end to end on the GPU."""
    HOST = "host"
    """Launches of an empty kernel, timed by the host."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One measured figure.

    Attributes:
        name: what ran, e.g. ``"copy"``, ``"tensor.bf16"``, ``"int32.mad"``, ``"launch.graph"``.
        ceiling: the ceiling that it tests, a key of `solkit.core.Device.ceilings`; ``None`` if
            there is none, or the work is too small to reach it.
        regime: the state of the GPU.
        unit: ``"B/s"``, ``"FLOP/s"``, ``"op/s"`` or ``"s"``.
        value: the median.
        low, high: its 95 % confidence interval.
        samples: their number.
        timer: the source of times.
        detail: shape or configuration, the best of those tried.
        size_bytes: memory touched by one launch, reads and writes together.
        sm_clock_mhz: the SM clock, counted on the GPU during similar bursts, or NVML's median.
        conditions: from NVML; ``None`` if the reading was too short.
    """

    name: str
    ceiling: str | None = None
    regime: Regime
    unit: str
    value: float
    low: float
    high: float
    samples: int
    timer: Timer
    detail: str = ""
    size_bytes: int | None = None
    sm_clock_mhz: float | None = None
    conditions: Conditions | None = None

    def __post_init__(self) -> None:
        """Check the figures.

        Raises:
            ValueError: one is not finite, or one that must be above 0 is not.
        """
        for name in ("value", "samples"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}: expected a number above 0, not {getattr(self, name)!r}")
        if not math.isfinite(self.low + self.high):
            raise ValueError(f"low, high: expected numbers, not {self.low!r} and {self.high!r}")


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """The GPU that was measured.

    Attributes:
        key: the catalogue's name of the SKU.
        name: NVML's.
        uuid: NVML's; ``None`` in calibrations that ship with SolKit.
        sm_count: streaming multiprocessors, fewer on a MIG slice.
        max_sm_clock_mhz, max_memory_clock_mhz: the highest that NVML allows.
        notes: power limit, ECC and the like.
    """

    key: str
    name: str
    uuid: str | None
    sm_count: int
    max_sm_clock_mhz: float
    max_memory_clock_mhz: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Software:
    """The software of a measurement."""

    solkit: str
    driver: str
    cuda: str
    torch: str
    triton: str
    python: str
    platform: str


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The highest rates that were measured on one GPU.

    Attributes:
        schema: of this record.
        created: when it was finished, in UTC.
        seconds: total duration.
        quick: whether ``--quick`` shortened it.
        idle: the GPU before anything ran.
        skipped: what could not be measured, with the reason.
        warnings: for the reader.
    """

    schema: Literal["solkit.calibration/1"]
    created: datetime
    seconds: float
    quick: bool
    gpu: Gpu
    software: Software
    idle: Conditions
    readings: tuple[Reading, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def find(self, name: str, regime: Regime) -> Reading | None:
        """Return the reading of that name; of several, the highest that tests a ceiling."""
        matches = [r for r in self.readings if (r.name, r.regime) == (name, regime)]
        return max(matches, key=lambda r: (r.ceiling is not None, r.value), default=None)
