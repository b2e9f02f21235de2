"""Counts of a launch's accesses, from those of the programs that were followed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solkit.analysis.common.regions import SECTOR
from solkit.analysis.interpreter.access_counts import TOTALS, AccessCounts, launch_traffic
from solkit.analysis.interpreter.access_recorders import ContentionRecorder, Extent, ExtentRecorder
from solkit.analysis.interpreter.counters import Counters
from solkit.analysis.interpreter.values import Array
from solkit.core import Device, Occupancy


@dataclass(frozen=True, kw_only=True, eq=False)
class LaunchCounts:
    """A launch of which few programs were followed lane by lane, and many coarsely.

    Attributes:
        few: of those lane by lane; names as in `TOTALS`, ``"apart"`` and ``"together"`` (sectors of
            the loads of one step: the sum of each one's own, and those that are distinct among
            all), and where it is known ``"fresh"``, distinct sectors not touched before.
        many: of the first programs of the launch, as `ExtentRecorder` counts.
        wide: of programs that represent the launch, likewise; the many if those are all.
        chosen: which of the wide the few are.
        scale: programs of the launch over the many.
        weights: programs of the launch that each of the wide stands for.
        unseen_ratio: over those of the few, executions over the launch of what none of the few does
            according to the wide.
        extents: of the many.
        contention: of the few.
    """

    few: Counters
    many: Counters
    wide: Counters
    chosen: Array
    scale: float
    weights: float | Array
    extents: ExtentRecorder
    contention: ContentionRecorder
    unseen_ratio: float = 0.0

    def over_launch(self, of_wide: Array) -> float:
        """Return the sum over all programs of numbers of the wide."""
        if isinstance(self.weights, float):
            return float(of_wide.sum()) * self.weights
        return float(of_wide @ self.weights)

    def mean(self, of_wide: Array) -> float:
        """Return the mean over all programs of numbers of the wide."""
        if isinstance(self.weights, float):
            return float(of_wide.mean())
        return float(np.average(of_wide, weights=self.weights))

    def ratio(self, key: Any) -> float:
        """Return executions over the launch per execution by the few, by a key of the wide."""
        of_wide = self.wide.of(key)
        seen = float(of_wide[self.chosen].sum())
        return self.over_launch(of_wide) / seen if seen else self.unseen_ratio

    @property
    def together(self) -> float:
        """Distinct sectors of the loads of one step over the sum of each one's own."""
        apart = self.few.total(("apart",))
        return self.few.total(("together",)) / apart if apart else 1.0

    def extent(self, access: Any) -> Extent:
        """Return where the many make an access."""
        return self.extents.extents.get(access) or Extent.nowhere(self.many.programs)

    def of_access(self, access: Any, **described: Any) -> AccessCounts:
        """Return an access's counts over the launch.

        Args:
            access: as in the counters.
            described: the fields of `AccessCounts` that follow from the code.
        """
        many, few, ratio = self.many, self.few, self.ratio((access, "made"))
        totals = {name: few.total((access, name)) * ratio for name in TOTALS}
        executions = self.over_launch(self.wide.of((access, "made")))
        executions = executions or few.total((access, "made")) * ratio
        once = SECTOR * totals["distinct"] / executions if executions else 0.0
        moves, per_program = many.of((access, "moves")), many.of((access, "made"))
        moved = moves * once
        if few.programs == many.programs:  # all were followed lane by lane
            distinct = few.of((access, "distinct"))
            moved = distinct * SECTOR * moves / np.maximum(per_program, 1e-9)
        executed = few.total((access, "made"))  # by all threads; the many are followed by some
        few_once = few.total((access, "distinct")) / executed if executed else 0.0
        few_moved = few.total((access, "moves")) * few_once
        extent = self.extent(access)
        return AccessCounts(
            scale=self.scale,
            executions=executions,
            totals=totals,
            low=extent.low,
            high=extent.high,
            per_program=per_program,
            moves=moves,
            moved=moved,
            fresh=min(few.total((access, "fresh")) / few_moved, 1.0) if few_moved else 1.0,
            meetings=self.contention.meetings.get(access),
            followed=few.programs,
            **described,
        )


def memory_requests(
    sites: Sequence[AccessCounts],
    together: float,
    shared_bytes: int,
    occupancy: Occupancy,
    device: Device,
) -> Mapping[str, Any]:
    """Return the fields of `solkit.core.Requests` that follow from accesses of global memory."""
    l2_read_bytes, reuse = launch_traffic(sites, together, shared_bytes, occupancy, device)
    return {
        "accesses": tuple(site.access for site in sites if site.access.requests),
        "loop_requests": sum(site.access.requests for site in sites if site.is_looped),
        "l2_read_bytes": round(l2_read_bytes),
        "l2_write_bytes": sum(site.access.sector_bytes for site in sites if site.kind != "load"),
        "reuse": reuse,
    }
