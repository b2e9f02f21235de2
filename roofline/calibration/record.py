"""The record of one calibration, ``solkit.calibration/1``: fields may be added, never renamed.

::

    Calibration ─┬─ gpu: Gpu, software: Software, idle: Conditions
                 └─ readings: Reading ── conditions: Conditions
"""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from solkit.core import Conditions

__all__ = ["SCHEMA", "Calibration", "Gpu", "Reading", "Regime", "Software", "Timer"]

SCHEMA: Final = "solkit.calibration/1"


Timer = Literal["cupti", "events", "wall"]
"""What told the time: CUPTI's activity records, CUDA events, or the host's clock."""


class Regime(str, enum.Enum):
    """The state of the GPU while a reading was taken."""

    BURST = "burst"
    """Launches end to end for about 1 ms, each time after 0.1 s of rest: what a short kernel
    meets, before the power limit takes the clock down."""
    SUSTAINED = "sustained"
    """Launches end to end for about a second; the second half counts: what a long run meets."""
    WARM = "warm L2"
    """Single launches, each after one on the same buffers."""
    CLEAN = "L2 flushed by reads"
    """Single launches, each after a large buffer was read: L2 holds clean lines of others."""
    DIRTY = "L2 flushed by writes"
    """Single launches, each after a large buffer was written: their way to DRAM comes on top."""
    QUEUED = "queued"
    """Many launches of an empty kernel, queued ahead, end to end on the GPU."""
    HOST = "host"
    """Launches of an empty kernel as the host sees them."""


class _Part(BaseModel):
    """Unknown fields are ignored, since later versions may add some."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Reading(_Part):
    """One measured figure.

    Attributes:
        name: what ran, e.g. ``"copy"``, ``"tensor.bf16"``, ``"int32.mad"``, ``"launch.graph"``.
        ceiling: the ceiling that it tests, a key of `solkit.core.Device.ceilings`; ``None`` for
            what has none, and where too little runs to reach one.
        regime: how the GPU was kept meanwhile.
        unit: ``"B/s"``, ``"FLOP/s"``, ``"op/s"`` or ``"s"``.
        value: the median.
        low, high: its 95 % confidence interval.
        samples: how many it is of.
        timer: what told the time.
        detail: shape or configuration, the best of those tried.
        size_bytes: memory touched by one launch, reads and writes together.
        sm_clock_mhz: the SM clock, counted on the GPU during bursts alike, or NVML's median.
        conditions: what NVML reported; ``None`` where the reading was too short.
    """

    name: str
    ceiling: str | None = None
    regime: Regime
    unit: str
    value: float = Field(gt=0)
    low: float
    high: float
    samples: int = Field(gt=0)
    timer: Timer
    detail: str = ""
    size_bytes: int | None = None
    sm_clock_mhz: float | None = None
    conditions: Conditions | None = None


class Gpu(_Part):
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


class Software(_Part):
    """What it was measured with."""

    solkit: str
    driver: str
    cuda: str
    torch: str
    triton: str
    python: str
    platform: str


class Calibration(_Part):
    """The most that one GPU was measured to do.

    Attributes:
        schema_: this form of record.
        created: when it was finished, in UTC.
        seconds: how long it took in total.
        quick: whether it was cut short by ``--quick``.
        idle: the GPU before anything ran.
        skipped: what could not be measured, with the reason.
        warnings: what a reader must know.
    """

    model_config = ConfigDict(populate_by_name=True)

    schema_: Literal["solkit.calibration/1"] = Field(alias="schema")
    created: datetime
    seconds: float
    quick: bool
    gpu: Gpu
    software: Software
    idle: Conditions
    readings: tuple[Reading, ...]
    skipped: dict[str, str] = Field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def find(self, name: str, regime: Regime) -> Reading | None:
        """The reading of that name; of several, the highest that tests a ceiling."""
        found = [r for r in self.readings if (r.name, r.regime) == (name, regime)]
        return max(found, key=lambda r: (r.ceiling is not None, r.value), default=None)
