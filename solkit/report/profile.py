"""The output of ``solkit profile``: a page, and JSON ``solkit.profile/1``.

::

    ProfileJson ─┬─ device, idle
                 ├─ ops: OpJson ─┬─ bound   (as in ``solkit.score/1``)
                 │               └─ kernels: KernelTimeJson
                 └─ unbounded: KernelTimeJson

Fields may be added, never renamed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from solkit.core import IdleTime, Profile, ProfiledKernel, ProfiledOp
from solkit.report import schema, units, widgets
from solkit.report.record_forms import JsonModel, Number, RecordForm
from solkit.report.tables import table_without_lines

_ROWS = 12
_KERNELS = 2
_INPUTS = 3
_NAME_CELLS = 60
_INDENT = 4
_WIDE = 90  # narrower pages leave columns out
_LABEL = 8
_HELD = 0.05  # share of the ops' excess time
_LARGEST_GAP = 1e3  # a larger gap is due to the launch alone
_COLUMNS = ("saves", "end to end", "time", "busy", "calls", "SOL", "gap")
_FEWER = (0, 2, 6)


def render(profile: Profile, console: Console, *, complete: bool = False) -> None:
    """Print the most important ops and kernels of a profile, or all of them if `complete`."""
    widgets.print_plainly(Group(*_page(profile, console.width, complete)), console)


def _page(profile: Profile, width: int, complete: bool) -> Iterator[RenderableType]:
    device = profile.device
    yield Text(profile.path, style="bold")
    clock = f"{device.clock_mhz:.0f} MHz ({device.clock_kind.value} clock)"
    facts = f"{device.sm_count} SMs · {clock}"
    yield Text.assemble((device.name, "bold"), f"  {facts}")
    yield from (Text(note, style="yellow") for note in (*device.notes, *profile.notes))
    if profile.failure:
        yield Text(f"{profile.failure}: this is what was profiled before", style="red")
    yield Text()
    yield widgets.labelled_texts(_summary(profile), _LABEL)
    ranked = _ranked(profile)
    if ranked:
        yield Text()
        yield from _rows(profile, ranked if complete else ranked[:_ROWS], width, complete)
    if len(ranked) > _ROWS and not complete:
        yield Text(f"{len(ranked) - _ROWS} more: --all shows them", style="dim")
    if profile.unbounded:
        yield Text()
        yield _unbounded(profile, complete)


def _summary(profile: Profile) -> Iterator[widgets.Row]:
    steps = f" over {profile.steps} step{'s' if profile.steps > 1 else ''}" if profile.steps else ""
    busy = f"busy {units.duration(profile.busy_ms)} ({_share(profile.busy_ms, profile.span_ms)})"
    span = units.duration(profile.span_ms)
    yield "time", Text.assemble((span, "bold"), f"{steps} on the GPU, {busy}")
    idle = profile.idle
    late = f"{units.duration(idle.host_ms)} because the host launched too late"
    queued = f"{units.duration(idle.queue_ms)} between launches that were queued"
    yield "idle", Text(f"{late}, {queued}")
    if profile.ops:
        remaining = units.duration(profile.span_ms - profile.saving_ms)
        speedup = units.format_ratio(profile.speedup(profile.saving_ms))
        yield (
            "SOL",
            Text(f"every op at its target: {remaining}, {speedup} end to end{_held(profile)}"),
        )
    if profile.unbounded:
        time_ms = sum(kernel.time_ms for kernel in profile.unbounded)
        unbounded = f"{units.duration(time_ms)} ({_share(time_ms, profile.busy_ms)} of busy time)"
        yield "no bound", Text(f"{unbounded} have none: listed below", style="yellow")


def _held(profile: Profile) -> str:
    """Return the excess time that is not on the critical path, if there is much."""
    excess_ms = sum(op.excess_ms for op in profile.ops)
    if excess_ms - profile.saving_ms < _HELD * excess_ms:
        return ""
    rest = units.duration(excess_ms - profile.saving_ms)
    return f"; {rest} more would only lengthen waits for the host or other streams"


# -------------------------------------------------------------------------------------- table


@dataclass(frozen=True)
class _Idle:
    """The row of idle time: what launching ahead would save."""

    saving_ms: float
    wait_ms: float


def _ranked(profile: Profile) -> list[ProfiledOp | _Idle]:
    """Return the ops, and idle time, by saving."""
    rows: list[ProfiledOp | _Idle] = list(profile.ops)
    if profile.idle.host_ms > 0:
        idle = _Idle(profile.idle.host_ms, profile.idle.wait_ms)
        place = sum(op.saving_ms >= idle.saving_ms for op in profile.ops)
        rows.insert(place, idle)
    return rows


def _rows(
    profile: Profile, rows: Sequence[ProfiledOp | _Idle], width: int, complete: bool
) -> Iterator[RenderableType]:
    """Yield a line of numbers per row, with details indented below it."""
    chosen = range(len(_COLUMNS)) if width >= _WIDE else _FEWER
    lines = [_idle(profile, row) if isinstance(row, _Idle) else _op(profile, row) for row in rows]
    table = [[line[i] for i in chosen] for line in (_COLUMNS, *(cells for cells, _ in lines))]
    widths = [max(map(len, column)) for column in zip(*table)]
    numbers = ["  ".join(map(str.rjust, line, widths)) + "  " for line in table]
    yield Text(numbers[0] + "op", style="dim")
    for row, line, (_, title) in zip(rows, numbers[1:], lines):
        yield Text.assemble(line, title)
        details = [_why(row)] if isinstance(row, _Idle) else _details(row, complete)
        yield from (Padding(text, (0, 0, 0, _INDENT)) for text in details)


def _op(profile: Profile, op: ProfiledOp) -> tuple[tuple[str, ...], Text]:
    gap = units.format_ratio(op.gap) if op.gap < _LARGEST_GAP else f">{_LARGEST_GAP:.0f}×"
    cells = (
        units.duration(op.saving_ms) if op.saving_ms > 0 else "-",
        f"{profile.speedup(op.saving_ms):.3f}×",
        units.duration(op.time_ms),
        _share(op.time_ms, profile.busy_ms),
        str(op.calls),
        units.duration(op.bound.time_ms),
        gap,
    )
    return cells, Text(op.name.removeprefix("aten::"), style="bold")


def _idle(profile: Profile, idle: _Idle) -> tuple[tuple[str, ...], Text]:
    saving = units.duration(idle.saving_ms)
    cells = (saving, f"{profile.speedup(idle.saving_ms):.3f}×", saving, "-", "-", "-", "-")
    return cells, Text.assemble(("GPU idle", "bold"), "  launch-bound")


def _why(idle: _Idle) -> Text:
    """Return what would shorten it: fewer waits, if more than half of it follows one."""
    if idle.wait_ms > 0.5 * idle.saving_ms:
        wait = units.duration(idle.wait_ms)
        return Text(f"{wait} of it after the host waited for the GPU: wait less often")
    return Text("the host launches too late: a CUDA graph launches ahead")


def _details(op: ProfiledOp, complete: bool) -> Iterator[Text]:
    """Yield what limits an op, its inputs and its kernels."""
    limiter = "launch" if op.target_ms > op.bound.time_ms else op.bound.limiter
    shown = op.inputs if complete else op.inputs[:_INPUTS]
    more = [f"{len(op.inputs) - len(shown)} more"] if len(shown) < len(op.inputs) else []
    inputs = f" · {', '.join([*shown, *more])}" if shown else ""
    yield Text(f"limited by {limiter}{inputs}")
    kernels = op.kernels if complete else op.kernels[:_KERNELS]
    for kernel in kernels:
        times = f"{kernel.calls} times, {units.duration(kernel.time_ms)}"
        yield Text(f"{_short(kernel.name, complete)}: {times}", style="dim")
    if len(kernels) < len(op.kernels):
        yield Text(f"and {len(op.kernels) - len(kernels)} more", style="dim")


def _unbounded(profile: Profile, complete: bool) -> Table:
    table = table_without_lines([], ["time", "busy", "calls"], ["without a bound"])
    shown = profile.unbounded if complete else profile.unbounded[:_ROWS]
    for kernel in shown:
        share = _share(kernel.time_ms, profile.busy_ms)
        title = _unbounded_text(kernel, complete)
        table.add_row(units.duration(kernel.time_ms), share, str(kernel.calls), title)
    rest = profile.unbounded[len(shown) :]
    if rest:
        time_ms = sum(kernel.time_ms for kernel in rest)
        share = _share(time_ms, profile.busy_ms)
        calls = str(sum(kernel.calls for kernel in rest))
        table.add_row(units.duration(time_ms), share, calls, f"{len(rest)} more: --all shows them")
    return table


def _unbounded_text(kernel: ProfiledKernel, complete: bool) -> Text:
    text = Text(_short(kernel.name, complete), style="bold")
    op_words = f" of {kernel.op.removeprefix('aten::')}" if kernel.op else ""
    return text.append(f"{op_words}: {kernel.reason}", style="not bold")


def _short(name: str, complete: bool) -> str:
    """Return a kernel's name, without return type, template arguments and parameters."""
    if complete:
        return name
    if not name.startswith("Mem"):  # "Memcpy HtoD (Pinned -> Device)" keeps its brackets
        name = re.split(r"[<(]", name.removeprefix("void ").replace("(anonymous namespace)::", ""))[
            0
        ]
    return name if len(name) <= _NAME_CELLS else name[: _NAME_CELLS - 1] + "…"


def _share(part_ms: float, whole_ms: float) -> str:
    percent = 100 * part_ms / whole_ms if whole_ms else 0.0
    return f"{percent:.1f} %" if percent < 10 else f"{percent:.0f} %"


# --------------------------------------------------------------------------------------- JSON


_KernelTime = Annotated[ProfiledKernel, RecordForm("KernelTimeJson", required=("op", "reason"))]


class OpJson(JsonModel):
    """`solkit.core.ProfiledOp`; `bound` is of one call, `speedup` of the whole run."""

    name: str
    inputs: list[str]
    calls: int
    time_ms: Number
    target_ms: Number
    gap: Number
    excess_ms: Number
    saving_ms: Number
    speedup: Number
    bound: schema.BoundJson
    kernels: list[_KernelTime]


class ProfileJson(JsonModel):
    """`solkit.core.Profile`: what ``solkit profile --json`` writes."""

    schema_: Literal["solkit.profile/1"] = Field(alias="schema")
    path: str
    device: schema.DeviceJson
    span_ms: Number
    steps: int
    busy_ms: Number
    idle: Annotated[IdleTime, RecordForm("IdleJson")]
    saving_ms: Number
    speedup: Number
    ops: list[OpJson]
    unbounded: list[_KernelTime]
    notes: list[str]
    failure: str


def dumps(profile: Profile) -> str:
    """Return a profile as JSON text in ASCII."""
    model = ProfileJson(
        schema="solkit.profile/1",
        path=profile.path,
        device=schema.device_model(profile.device),
        span_ms=profile.span_ms,
        steps=profile.steps,
        busy_ms=profile.busy_ms,
        idle=profile.idle,
        saving_ms=profile.saving_ms,
        speedup=profile.speedup(profile.saving_ms),
        ops=[_op_json(profile, op) for op in profile.ops],
        unbounded=list(profile.unbounded),
        notes=list(profile.notes),
        failure=profile.failure,
    )
    return schema.text_of(model)


def _op_json(profile: Profile, op: ProfiledOp) -> OpJson:
    return OpJson(
        name=op.name,
        inputs=list(op.inputs),
        calls=op.calls,
        time_ms=op.time_ms,
        target_ms=op.target_ms,
        gap=op.gap,
        excess_ms=op.excess_ms,
        saving_ms=op.saving_ms,
        speedup=profile.speedup(op.saving_ms),
        bound=schema.bound_model(op.bound, ()),
        kernels=list(op.kernels),
    )
