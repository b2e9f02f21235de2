"""The output of ``solkit bound``: a page, and JSON ``solkit.bound/1``.

::

    BoundReportJson ─┬─ environment, kernel, device, failed
                     └─ results: ShapeJson ─┬─ work, bound, fusion   (as in ``solkit.score/1``)
                                            └─ unfused, grouped: PartJson

Fields may be added, never renamed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from solkit.core import BestAlgorithm, Device, FailedShape, PartBound, Report, Result
from solkit.report import explain, fusion, record_forms, schema, units, widgets
from solkit.report.record_forms import JsonModel, Number, Setting
from solkit.report.tables import table_without_lines
from solkit.roofline.hard_bound import slack_reasons


def render(
    report: Report, console: Console, *, explained: bool = False, kernels: bool = False
) -> None:
    """Print every shape of a report of `solkit.pipeline.bounds`.

    `explained` adds the ops behind each resource, and why the hard bound is below the roofline;
    `kernels` adds the kernels of each fusion level.
    """
    widgets.print_plainly(Group(*_page(report, console.width, explained, kernels)), console)


def _page(report: Report, width: int, explained: bool, kernels: bool) -> Iterator[RenderableType]:
    yield from widgets.report_header(report)
    if len(report.results) > 1:
        yield Text()
        yield _overview(report.results)
    assumed: tuple[str, ...] = ()
    file = report.kernel.problem.path
    for result in report.results:
        yield Text()
        yield from _section(result, width, assumed)
        assumed = result.bound.assumptions
        if explained:
            yield from _explanation(result, report.device, file)
        if kernels and result.fusion:
            yield Text()
            yield fusion.fusion_table(result.fusion, report.device.launch_us, file)


def _overview(results: Sequence[Result]) -> Table:
    """Return a row per shape, labelled by the sizes that differ."""
    names = widgets.differing_sizes(results)
    table = table_without_lines(["shape"], ["SOL", "hard", "one per op"], ["limiter"])
    for result in results:
        sizes = {name: result.shape[name] for name in names if name in result.shape}
        table.add_row(
            Text(units.shape_words(sizes)),
            Text(units.duration(result.bound.time_ms), style="bold"),
            units.duration(result.bound.at.hard_ms),
            units.duration(result.fusion.unfused_ms if result.fusion else None),
            Text(result.bound.limiter),
        )
    return table


def _section(result: Result, width: int, assumed: tuple[str, ...]) -> Iterator[RenderableType]:
    bound, label = result.bound, widgets.label_cells(result.bound)
    yield widgets.titled_rule(units.shape_words(result.shape))
    limiter = f", limited by {bound.limiter}"
    sol = Text.assemble((units.duration(bound.time_ms), "bold"), limiter)
    yield widgets.labelled_texts([("SOL", sol), *widgets.best_rows(result)], label)
    yield Text()
    yield widgets.resource_bars(result, label, width)
    yield Text()
    yield widgets.labelled_texts(widgets.bound_remarks(result, assumed), label)
    if result.work.unmodelled:
        ops = Text(", ".join(result.work.unmodelled), style="yellow")
        yield widgets.labelled_texts([("unmodelled", ops)], label)


def _explanation(result: Result, device: Device, file: str) -> Iterator[RenderableType]:
    label = widgets.label_cells(result.bound)
    reasons = slack_reasons(result.work, result.bound, device)
    yield widgets.labelled_texts((("hard lower", Text(reason)) for reason in reasons), label)
    yield from widgets.best_plan(result, label)
    yield Text()
    yield explain.contributors(result.bound, file)
    yield Text()
    yield widgets.labelled_texts(explain.ceilings_lines(result.bound), label)
    if result.bound.routes:
        yield Text()
        yield explain.precision_routes(result.bound.routes)


# --------------------------------------------------------------------------------------- JSON


class PartJson(JsonModel):
    """`solkit.core.PartBound`: one kernel."""

    positions: list[int]
    names: list[str]
    line: str
    time_ms: Number
    limiter: str
    dram_bytes: int


class ShapeJson(JsonModel):
    """`solkit.core.Result` without the candidate's side."""

    shape: dict[str, Setting]
    work: schema.WorkJson
    bound: schema.BoundJson
    fusion: schema.FusionJson | None
    unfused: list[PartJson]
    grouped: list[PartJson]
    best: record_forms.Json[BestAlgorithm] | None = None


class BoundReportJson(JsonModel):
    """`solkit.core.Report`: what ``solkit bound --json`` writes."""

    schema_: Literal["solkit.bound/1"] = Field(alias="schema")
    environment: dict[str, str | None]
    kernel: schema.KernelJson
    device: schema.DeviceJson
    results: list[ShapeJson]
    failed: list[record_forms.Json[FailedShape]]


def dumps(report: Report) -> str:
    """Return a report as JSON text in ASCII."""
    model = BoundReportJson(
        schema="solkit.bound/1",
        environment=dict(report.environment),
        kernel=schema.kernel_model(report.kernel),
        device=schema.device_model(report.device),
        results=[_shape(result, report.device) for result in report.results],
        failed=list(report.failed),
    )
    return schema.text_of(model)


def _shape(result: Result, device: Device) -> ShapeJson:
    levels = result.fusion
    return ShapeJson(
        shape=dict(result.shape),
        work=schema.work_model(result.work, result.bound),
        bound=schema.bound_model(result.bound, slack_reasons(result.work, result.bound, device)),
        fusion=schema.fusion_model(levels) if levels else None,
        unfused=[_part(part) for part in levels.unfused] if levels else [],
        grouped=[_part(part) for part in levels.grouped] if levels else [],
        best=result.best,
    )


def _part(part_bound: PartBound) -> PartJson:
    return PartJson(
        positions=list(part_bound.part.positions),
        names=list(part_bound.part.names),
        line=part_bound.part.line,
        time_ms=part_bound.bound.time_ms,
        limiter=part_bound.bound.limiter,
        dram_bytes=part_bound.part.work.dram_bytes,
    )
