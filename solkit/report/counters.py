"""What each launch should do beside what the GPU counted, on the terminal page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from solkit.core import Counters, KernelAnalysis
from solkit.report import units
from solkit.roofline.counted import compared

__all__ = ["tables"]

_REASONS = 3
_NO_STALL = ("selected", "not_selected")
"""Warps that issue, or could have: nothing holds them up."""


def tables(kernels: Sequence[KernelAnalysis]) -> Iterator[RenderableType]:
    """A table for each launch that was counted, and what its warps waited for."""
    for kernel in kernels:
        if kernel.counters is not None:
            yield Text()
            yield _table(kernel)
            yield Text(_remarks(kernel.counters), style="dim")


def _table(kernel: KernelAnalysis) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column(kernel.launch.name, overflow="fold")
    for name in ("modelled", "counted", "ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for each in compared(kernel):
        mark = Text("the model disagrees", style="yellow") if each.disagrees else Text()
        modelled, counted = _amount(each.modelled, each.unit), _amount(each.counted, each.unit)
        table.add_row(each.name, modelled, counted, units.ratio(each.ratio), mark)
    return table


def _amount(value: float, unit: str) -> str:
    if unit == "share":
        return f"{100 * value:.0f} %"
    if unit == "waves":
        return f"{value:.3g}"
    return units.amount(value, unit)


def _remarks(counters: Counters) -> str:
    """What warps waited for, how many there were, and what could not be counted."""
    held = {name: n for name, n in counters.stalls.items() if name not in _NO_STALL}
    whole = sum(counters.stalls.values())
    told = [f"{name.replace('_', ' ')} {100 * n / whole:.0f} %" for name, n in held.items() if n]
    remarks = [f"warps wait for {', '.join(told[:_REASONS])}"] if told else []
    if counters.achieved_occupancy is not None:
        remarks.append(f"{100 * counters.achieved_occupancy:.0f} % of an SM's warps are there")
    if counters.missing:
        remarks.append(f"not counted here: {', '.join(counters.missing)}")
    return " · ".join(remarks)
