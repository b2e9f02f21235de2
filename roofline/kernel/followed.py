"""A launch with known demand, and its times for the gap's steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from solkit.core import Demand, Device, KernelAnalysis, Term
from solkit.roofline.kernel.model import ahead, resident, spilled, together

__all__ = ["Followed"]


@dataclass(frozen=True)
class Followed:
    """A launch with known demand."""

    kernel: KernelAnalysis
    device: Device

    @property
    def demand(self) -> Demand:
        """Its demand."""
        assert self.kernel.demand is not None
        return self.kernel.demand

    @property
    def terms(self) -> Sequence[Term]:
        """Of its modelled time."""
        assert self.kernel.model is not None
        return self.kernel.model.terms

    @property
    def count(self) -> int:
        """How often a call launches it."""
        return self.kernel.launch.count

    @property
    def blocks(self) -> int:
        """Of its grid."""
        return math.prod(self.kernel.launch.grid)

    @property
    def uneven(self) -> float:
        """The busiest SM's work over the mean."""
        return self.demand.unevenness

    def longest(self, even: bool) -> float:
        """The longest of the resources' terms, in ms; `even`: as if all SMs had the mean."""
        times = [
            term.time_ms / (self.uneven if even and term.name not in ("dram", "l2") else 1.0)
            for term in self.terms
            if term.name not in ("latency", "dispatch", "launch")
        ]
        return max(times, default=0.0)

    def term(self, name: str) -> Term:
        """The term of that name."""
        return next(term for term in self.terms if term.name == name)

    def running(self, *without: str) -> float:
        """All terms except the launch and those named, in ms."""
        terms = [term for term in self.terms if term.name not in ("launch", *without)]
        blocks = resident(self.kernel, self.device)
        return together(terms, blocks, ahead(self.kernel))

    def traffic_ms(self, conflicts: bool = True) -> float:
        """The busiest memory at its ceiling, optionally without bank conflicts."""
        demand, ceilings = self.demand, self.device.ceilings
        stacks, in_l1 = spilled(self.kernel, self.device)
        lines = demand.l1_wavefronts + (stacks / 128 if in_l1 else 0.0)
        wavefronts = sum(
            each.wavefronts if conflicts else each.least_wavefronts for each in demand.shared
        )
        times = [
            (demand.dram_read_bytes + demand.dram_write_bytes) / ceilings["dram"].value,
            max(lines, wavefronts) / (self.device.sm_count * self.device.clock_mhz * 1e6),
        ]
        if "l2" in ceilings:
            l2 = demand.l2_read_bytes + demand.l2_write_bytes
            times.append((l2 + (0.0 if in_l1 else stacks)) / ceilings["l2"].value)
        return 1e3 * max(times)
