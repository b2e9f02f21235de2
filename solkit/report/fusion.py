"""Fusion levels in words and as a table of kernels."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from solkit.core import Fusion, PartBound
from solkit.report import units
from solkit.report.explain import format_place
from solkit.report.tables import table_without_lines
from solkit.roofline.names import short_name

_NAMES = 4  # ops named per kernel


def fusion_summary(fusion: Fusion) -> str:
    """Return one line: what fusing everything saves over one kernel per op."""
    if len(fusion.unfused) < 2:
        return "a single op: nothing to fuse"
    unfused = f"{len(fusion.unfused)} kernels, one per op, {units.duration(fusion.unfused_ms)}"
    worth = f"fusion is worth up to {units.format_ratio(fusion.worth)}"
    return f"one kernel {units.duration(fusion.fused_ms)} · {unfused}: {worth}"


def fusion_table(fusion: Fusion, launch_us: float | None, file: str) -> Table:
    """Tabulate the requested kernels, else one per op; then the totals.

    Lines of `file` do not name it.
    """
    rows = table_without_lines(["op", "kernel", "line"], ["time", "bytes"], ["limiter"])
    for part in fusion.grouped or fusion.unfused:
        rows.add_row(*_row_of_part(part, file))
    rows.add_section()
    rows.add_row("", Text("one kernel", "bold"), "", units.duration(fusion.fused_ms))
    if fusion.grouped:
        rows.add_row(*_total_row("groups", fusion.grouped, fusion.grouped_ms, launch_us))
    rows.add_row(*_total_row("one per op", fusion.unfused, fusion.unfused_ms, launch_us))
    return rows


def _row_of_part(part_bound: PartBound, file: str) -> tuple[Text | str, ...]:
    part, bound = part_bound.part, part_bound.bound
    return (
        format_op_numbers(part.positions),
        Text(_format_names(part.names)),
        Text(format_place(part.line, file)),
        units.duration(part_bound.time_ms),
        units.amount(part.work.dram_bytes, "B"),
        bound.limiter,
    )


def _total_row(
    name: str, parts: Sequence[PartBound], time_ms: float, launch_us: float | None
) -> tuple[Text | str, ...]:
    launches = f", each launched in {units.duration(launch_us / 1e3)}" if launch_us else ""
    moved = sum(part.part.work.dram_bytes for part in parts)
    label = Text.assemble(
        (name, "bold"), f": {len(parts)} kernel{'s' * (len(parts) > 1)}{launches}"
    )
    return "", label, "", units.duration(time_ms), units.amount(moved, "B")


def _format_names(names: Sequence[str]) -> str:
    short = [short_name(name) for name in names]
    if len(short) > _NAMES:
        short = [*short[: _NAMES - 1], f"{len(short) - _NAMES} more", short[-1]]
    return " + ".join(short)


def format_op_numbers(positions: Sequence[int]) -> str:
    """``"0-2+5"`` for ``(0, 1, 2, 5)``: as `solkit.roofline.fusion` reads them."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and runs[-1][-1] == position - 1:
            runs[-1].append(position)
        else:
            runs.append([position])
    return "+".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
