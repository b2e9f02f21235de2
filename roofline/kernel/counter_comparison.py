"""A launch's modelled figures beside the GPU's counters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from solkit.core import Counters, Demand, KernelAnalysis

_FAR = 0.2
"""Beyond this ratio the model disagrees with the counters."""
_TELLING = 0.01
"""Share of everything counted in the same unit; smaller differences do not matter."""

_SECTORS = {
    "loads": ("load_sectors", "load", "global"),
    "async copies": ("async_sectors", "load", "async"),
    "stores": ("store_sectors", "store", "global"),
    "atomics": ("atomic_sectors", "atomic", "global"),
    "TMA loads": ("tma_read_sectors", "load", "tma"),
    "TMA stores": ("tma_write_sectors", "store", "tma"),
}
"""Sectors by name: the field of `Counters`, and the kind and path of the counted accesses."""


@dataclass(frozen=True)
class CounterComparison:
    """One figure of a launch.

    Attributes:
        name: of the figure.
        unit: ``"sectors"``, ``"B"``, ``"FLOP"``, ``"share"`` (of an SM's warps) or ``"waves"``.
        modelled: by SolKit.
        counted: by the GPU.
        disagrees: whether they differ by more than a fifth and by an amount that matters.
    """

    name: str
    unit: str
    modelled: float
    counted: float
    disagrees: bool = False

    @property
    def ratio(self) -> float:
        """Modelled / counted."""
        if self.counted:
            return self.modelled / self.counted
        return float("inf") if self.modelled else 1.0


def requested_sectors(demand: Demand) -> dict[str, int]:
    """Count the sectors that a launch requests, by kind; TMA reductions count as stores."""
    sectors_by_name = dict.fromkeys(_SECTORS, 0)
    for access in demand.accesses:
        kind = "store" if (access.kind, access.path) == ("atomic", "tma") else access.kind
        for name, (_, *key) in _SECTORS.items():
            if key == [kind, access.path]:
                sectors_by_name[name] += access.sectors
    return sectors_by_name


def compared(kernel: KernelAnalysis) -> tuple[CounterComparison, ...]:
    """Return the figures of a launch that are both modelled and counted, unless both are zero.

    Writes to DRAM never disagree: the counters miss those that L2 still held at the end.

    Args:
        kernel: a launch; without counters or a demand there is little or nothing to compare.
    """
    if kernel.counters is None:
        return ()
    pairs = [
        pair for pair in _comparison_pairs(kernel, kernel.counters) if pair.modelled or pair.counted
    ]
    whole: dict[str, float] = {}
    for pair in pairs:
        whole[pair.unit] = whole.get(pair.unit, 0.0) + pair.counted
    return tuple(
        CounterComparison(
            pair.name, pair.unit, pair.modelled, pair.counted, _disagrees(pair, whole)
        )
        for pair in pairs
    )


def _disagrees(pair: CounterComparison, whole: dict[str, float]) -> bool:
    difference = abs(pair.modelled - pair.counted)
    telling = difference > _TELLING * whole[pair.unit]
    return telling and difference > _FAR * pair.counted and pair.name != "DRAM writes"


def _comparison_pairs(kernel: KernelAnalysis, counters: Counters) -> Iterator[CounterComparison]:
    if kernel.demand is not None:
        yield from _demanded(kernel.demand, counters)
    if kernel.occupancy is not None:
        occupancy, waves = kernel.occupancy.fraction, kernel.occupancy.waves
        if counters.occupancy is not None:
            yield CounterComparison("occupancy", "share", occupancy, counters.occupancy)
        if counters.waves is not None:
            yield CounterComparison("waves", "waves", waves, counters.waves)


def _demanded(demand: Demand, counters: Counters) -> Iterator[CounterComparison]:
    modelled_sectors = requested_sectors(demand)
    for name, (field, *_) in _SECTORS.items():
        count = getattr(counters, field)
        if count is not None:
            yield CounterComparison(name, "sectors", modelled_sectors[name], count)
    traffic = (
        ("L2 reads", demand.l2_read_bytes, counters.l2_read_bytes),
        ("L2 writes", demand.l2_write_bytes, counters.l2_write_bytes),
        ("DRAM reads", demand.dram_read_bytes, counters.dram_read_bytes),
        ("DRAM writes", demand.dram_write_bytes, counters.dram_write_bytes),
    )
    for name, modelled, counted in traffic:
        if counted is not None:
            yield CounterComparison(name, "B", modelled, counted)
    for pipe, operations in counters.operations.items():
        yield CounterComparison(pipe, "FLOP", demand.operations.get(pipe, 0), operations)
