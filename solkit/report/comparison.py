"""The output of ``solkit compare``: a page, and JSON ``solkit.compare/1``.

::

    ComparisonReportJson ─┬─ environment, device, base, candidates, failed
                          └─ comparisons: ComparisonJson ─┬─ base, candidate: RivalJson
                                                          └─ ratio, protocol

Fields may be added, never renamed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from solkit.core import (
    Comparison,
    ComparisonReport,
    Difference,
    FailedShape,
    Ratio,
    Result,
    Verdict,
)
from solkit.report import schema, units, widgets
from solkit.report.record_forms import Json, JsonModel, Number, Setting
from solkit.report.tables import table_without_lines

_LABEL_CELLS = 10
_STYLES = {
    Difference.FASTER: "bold green",
    Difference.SLOWER: "bold red",
    Difference.NOT_SHOWN: "",
    Difference.UNSTABLE: "yellow",
    Difference.NOT_COMPARED: "yellow",
}


def render(report: ComparisonReport, console: Console) -> None:
    """Print a line per comparison, and remarks."""
    widgets.print_plainly(Group(*_page(report)), console)


def _page(report: ComparisonReport) -> Iterator[RenderableType]:
    device = report.device
    files = (report.base, *report.candidates)
    rows = [("base", files[0])] + [(f"candidate {n}", file) for n, file in enumerate(files) if n]
    yield widgets.labelled_texts(((role, Text(file.path)) for role, file in rows), _LABEL_CELLS)
    yield Text.assemble((device.name, "bold"), f"  {device.sm_count} SMs")
    for failed in report.failed:
        yield Text(f"\n{units.shape_words(failed.shape)}: {failed.error}", style="red")
    if report.comparisons:
        yield Text()
        yield _table(report)
        yield Text()
        yield widgets.labelled_texts(_remarks(report), _LABEL_CELLS)


def _table(report: ComparisonReport) -> Table:
    """Return a row per comparison; shapes are named by the sizes that differ."""
    names = widgets.differing_sizes([comparison.base for comparison in report.comparisons])
    table = table_without_lines(["shape", "candidate"], ["base", "time", "ratio", "95 %"], ["is"])
    for comparison in report.comparisons:
        shape = {
            name: comparison.base.shape[name] for name in names if name in comparison.base.shape
        }
        table.add_row(
            Text(units.shape_words(shape)),
            Text(_name(comparison)),
            units.duration(comparison.base_ms),
            units.duration(comparison.candidate_ms),
            Text(f"{comparison.ratio.value:.4f}" if comparison.ratio else "-", style="bold"),
            _interval(comparison.ratio),
            Text(_words(comparison.difference), style=_STYLES[comparison.difference]),
        )
    return table


def _name(comparison: Comparison) -> str:
    """Return the candidate's file, and the parameters in which it differs from the base."""
    base, candidate = comparison.base.params, comparison.candidate.params
    own = {name: value for name, value in candidate.items() if base.get(name) != value}
    return f"{comparison.kernel.name} {units.format_settings(own)}".strip()


def _interval(ratio: Ratio | None) -> str:
    return "-" if ratio is None else f"{ratio.low:.4f} to {ratio.high:.4f}"


def _words(difference: Difference) -> str:
    return difference.value.replace("_", " ")


def _remarks(report: ComparisonReport) -> Iterator[widgets.Row]:
    """Yield how the times were measured, what limits the ratios, or why there are none."""
    timed = next(
        (
            comparison
            for comparison in report.comparisons
            if comparison.protocol and comparison.ratio
        ),
        None,
    )
    if timed is not None and timed.protocol is not None and timed.ratio is not None:
        protocol = timed.protocol
        how = f"{protocol.method}, {protocol.l2} L2 ({protocol.flush}), {protocol.launched}"
        yield "timing", Text(f"{how} · called in turns, in random order")
    for comparison in report.comparisons:
        place = f"{units.shape_words(comparison.base.shape)}: "
        if comparison.ratio is not None:
            limit = f"differences under {comparison.ratio.resolution:.1%} cannot be shown"
            yield "ratio", Text(f"{place}{comparison.ratio.turns} turns · {limit}")
        for role, result in (("base", comparison.base), ("candidate", comparison.candidate)):
            if result.verdict is not Verdict.CORRECT:
                first = f": {result.errors[0]}" if result.errors else ""
                yield role, Text(f"{place}{result.verdict.value}{first}", style="yellow")
        yield from (("evidence", Text(f"{place}{error}")) for error in comparison.errors)


# --------------------------------------------------------------------------------------- JSON


class RivalJson(JsonModel):
    """`solkit.core.Result` of the base or a candidate, measured on its own."""

    params: dict[str, Setting]
    verdict: Verdict
    errors: list[str]
    roofline_ms: Number
    median_ms: Number
    low_ms: Number
    high_ms: Number
    sol_score: Number


class ComparisonJson(JsonModel):
    """`solkit.core.Comparison`."""

    shape: dict[str, Setting]
    candidate_path: str
    base: RivalJson
    candidate: RivalJson
    difference: Difference
    ratio: Json[Ratio] | None
    base_ms: Number
    candidate_ms: Number
    protocol: schema.ProtocolForm | None
    errors: list[str]


class ComparisonReportJson(JsonModel):
    """`solkit.core.ComparisonReport`: what ``solkit compare --json`` writes."""

    schema_: Literal["solkit.compare/1"] = Field(alias="schema")
    environment: dict[str, str | None]
    device: schema.DeviceJson
    base: schema.KernelJson
    candidates: list[schema.KernelJson]
    comparisons: list[ComparisonJson]
    failed: list[Json[FailedShape]]


def dumps(report: ComparisonReport) -> str:
    """Return a report as JSON text in ASCII."""
    model = ComparisonReportJson(
        schema="solkit.compare/1",
        environment=dict(report.environment),
        device=schema.device_model(report.device),
        base=schema.kernel_model(report.base),
        candidates=[schema.kernel_model(candidate) for candidate in report.candidates],
        comparisons=[_comparison(comparison) for comparison in report.comparisons],
        failed=list(report.failed),
    )
    return schema.text_of(model)


def _comparison(comparison: Comparison) -> ComparisonJson:
    return ComparisonJson(
        shape=dict(comparison.base.shape),
        candidate_path=comparison.kernel.path,
        base=_rival(comparison.base),
        candidate=_rival(comparison.candidate),
        difference=comparison.difference,
        ratio=comparison.ratio,
        base_ms=comparison.base_ms,
        candidate_ms=comparison.candidate_ms,
        protocol=comparison.protocol,
        errors=list(comparison.errors),
    )


def _rival(result: Result) -> RivalJson:
    timed = result.measurement
    return RivalJson(
        params=dict(result.params),
        verdict=result.verdict,
        errors=list(result.errors),
        roofline_ms=result.bound.time_ms,
        median_ms=timed.median_ms if timed else None,
        low_ms=timed.low_ms if timed else None,
        high_ms=timed.high_ms if timed else None,
        sol_score=result.score.sol_score if result.score else None,
    )
