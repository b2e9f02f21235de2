"""The modelled figures of each launch beside the GPU's counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from solkit.core import KernelAnalysis
from solkit.report import units
from solkit.report.tables import table_without_lines
from solkit.roofline.kernel.counter_comparison import compared

_REASONS = 3
_NO_STALL = ("selected", "not_selected")
"""Warps that issue, or could."""


def counter_tables(kernels: Sequence[KernelAnalysis]) -> Iterator[RenderableType]:
    """Yield a table and what warps waited for, for each counted launch."""
    for kernel in kernels:
        if kernel.counters is not None:
            yield Text()
            yield _table_of_launch(kernel)
            counted = kernel.counters
            said = stall_remarks(counted.stalls, counted.achieved_occupancy, counted.missing)
            yield Text(said, style="dim")


def _table_of_launch(kernel: KernelAnalysis) -> Table:
    table = table_without_lines([kernel.launch.name], ["modelled", "counted", "ratio"], [""])
    for counter in compared(kernel):
        mark = Text("the model disagrees", style="yellow") if counter.disagrees else Text()
        modelled, counted = (
            format_in_unit(counter.modelled, counter.unit),
            format_in_unit(counter.counted, counter.unit),
        )
        table.add_row(counter.name, modelled, counted, units.format_ratio(counter.ratio), mark)
    return table


def format_in_unit(value: float, unit: str) -> str:
    """Write a figure in a `solkit.roofline.kernel.counter_comparison.CounterComparison`'s unit."""
    if unit == "share":
        return f"{100 * value:.0f} %"
    if unit == "waves":
        return f"{value:.3g}"
    if unit == "sectors":
        return f"{units.amount(value, '')} sectors" if value >= 1e3 else f"{value:.0f} sectors"
    return units.amount(value, unit)


def stall_remarks(
    stalls: Mapping[str, float | None], achieved_occupancy: float | None, missing: Sequence[str]
) -> str:
    """Return what warps waited for, how many there were, and what could not be counted."""
    whole = sum(n or 0.0 for n in stalls.values())
    held = {name: n for name, n in stalls.items() if name not in _NO_STALL and n}
    stall_shares = [f"{name.replace('_', ' ')} {100 * n / whole:.0f} %" for name, n in held.items()]
    said = [f"warps wait for {', '.join(stall_shares[:_REASONS])}"] if stall_shares else []
    if achieved_occupancy is not None:
        said.append(f"{100 * achieved_occupancy:.0f} % of an SM's warps are resident")
    if missing:
        said.append(f"not counted here: {', '.join(missing)}")
    return " · ".join(said)
