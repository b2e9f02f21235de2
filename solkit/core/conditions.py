"""The state of a GPU while it was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Conditions:
    """Readings of NVML during a run; ``None`` for a figure that it refused.

    Attributes:
        samples: number of queries.
        sm_clock_mhz: median SM clock.
        sm_clock_low_mhz: lowest SM clock.
        memory_clock_mhz: median memory clock.
        power_w: median power.
        power_high_w: highest power.
        temperature_c: highest temperature.
        reasons: throttle reasons, each with its share of the samples.
    """

    samples: int
    sm_clock_mhz: float | None = None
    sm_clock_low_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    power_high_w: float | None = None
    temperature_c: float | None = None
    reasons: Mapping[str, float] = field(default_factory=dict)
