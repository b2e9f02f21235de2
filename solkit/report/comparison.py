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

from solkit.core import Comparison, ComparisonReport, Difference, Ratio, Result, Verdict
from solkit.report import parts, schema, units
from solkit.report.tables import columns

__all__ = ["ComparisonJson", "ComparisonReportJson", "RatioJson", "RivalJson", "dumps", "render"]

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
    parts.print_plainly(Group(*_page(report)), console)


def _page(report: ComparisonReport) -> Iterator[RenderableType]:
    device = report.device
    files = (report.base, *report.candidates)
    rows = [("base", files[0])] + [(f"candidate {n}", file) for n, file in enumerate(files) if n]
    yield parts.labelled(((role, Text(file.path)) for role, file in rows), _LABEL_CELLS)
    yield Text.assemble((device.name, "bold"), f"  {device.sm_count} SMs")
    for failed in report.failed:
        yield Text(f"\n{units.shape_words(failed.shape)}: {failed.error}", style="red")
    if report.comparisons:
        yield Text()
        yield _table(report)
        yield Text()
        yield parts.labelled(_remarks(report), _LABEL_CELLS)


def _table(report: ComparisonReport) -> Table:
    """A row per comparison; shapes are named by the sizes that differ."""
    names = parts.differing_sizes([each.base for each in report.comparisons])
    table = columns(["shape", "candidate"], ["base", "time", "ratio", "95 %"], ["is"])
    for each in report.comparisons:
        shape = {name: each.base.shape[name] for name in names if name in each.base.shape}
        table.add_row(
            Text(units.shape_words(shape)),
            Text(_name(each)),
            units.duration(each.base_ms),
            units.duration(each.candidate_ms),
            Text(f"{each.ratio.value:.4f}" if each.ratio else "-", style="bold"),
            _interval(each.ratio),
            Text(_words(each.difference), style=_STYLES[each.difference]),
        )
    return table


def _name(comparison: Comparison) -> str:
    """The candidate's file, and the parameters in which it differs from the base."""
    base, candidate = comparison.base.params, comparison.candidate.params
    own = {name: value for name, value in candidate.items() if base.get(name) != value}
    return f"{comparison.kernel.name} {units.settings(own)}".strip()


def _interval(ratio: Ratio | None) -> str:
    return "-" if ratio is None else f"{ratio.low:.4f} to {ratio.high:.4f}"


def _words(difference: Difference) -> str:
    return difference.value.replace("_", " ")


def _remarks(report: ComparisonReport) -> Iterator[parts.Row]:
    """How the times were measured, what limits the ratios, or why there are none."""
    timed = next((each for each in report.comparisons if each.protocol and each.ratio), None)
    if timed is not None and timed.protocol is not None and timed.ratio is not None:
        protocol = timed.protocol
        how = f"{protocol.method}, {protocol.l2} L2 ({protocol.flush}), {protocol.launched}"
        yield "timing", Text(f"{how} · called in turns, in random order")
    for each in report.comparisons:
        place = f"{units.shape_words(each.base.shape)}: "
        if each.ratio is not None:
            limit = f"differences under {each.ratio.resolution:.1%} cannot be shown"
            yield "ratio", Text(f"{place}{each.ratio.turns} turns · {limit}")
        for role, result in (("base", each.base), ("candidate", each.candidate)):
            if result.verdict is not Verdict.CORRECT:
                first = f": {result.errors[0]}" if result.errors else ""
                yield role, Text(f"{place}{result.verdict.value}{first}", style="yellow")
        yield from (("evidence", Text(f"{place}{error}")) for error in each.errors)


# --------------------------------------------------------------------------------------- JSON


class RivalJson(schema.JsonModel):
    """`solkit.core.Result` of the base or a candidate, measured on its own."""

    params: dict[str, schema.Setting]
    verdict: Verdict
    errors: list[str]
    roofline_ms: schema.Number
    median_ms: schema.Number
    low_ms: schema.Number
    high_ms: schema.Number
    sol_score: schema.Number


class RatioJson(schema.JsonModel):
    """`solkit.core.Ratio`."""

    value: schema.Number
    low: schema.Number
    high: schema.Number
    resolution: schema.Number
    turns: int


class ComparisonJson(schema.JsonModel):
    """`solkit.core.Comparison`."""

    shape: dict[str, schema.Setting]
    candidate_path: str
    base: RivalJson
    candidate: RivalJson
    difference: Difference
    ratio: RatioJson | None
    base_ms: schema.Number
    candidate_ms: schema.Number
    protocol: schema.ProtocolJson | None
    errors: list[str]


class ComparisonReportJson(schema.JsonModel):
    """`solkit.core.ComparisonReport`: what ``solkit compare --json`` writes."""

    schema_: Literal["solkit.compare/1"] = Field(alias="schema")
    environment: dict[str, str | None]
    device: schema.DeviceJson
    base: schema.KernelJson
    candidates: list[schema.KernelJson]
    comparisons: list[ComparisonJson]
    failed: list[schema.FailedShapeJson]


def dumps(report: ComparisonReport) -> str:
    """A report as JSON text in ASCII."""
    model = ComparisonReportJson(
        schema="solkit.compare/1",
        environment=dict(report.environment),
        device=schema.device_model(report.device),
        base=schema.kernel_model(report.base),
        candidates=[schema.kernel_model(each) for each in report.candidates],
        comparisons=[_comparison(each) for each in report.comparisons],
        failed=schema.failed_models(report.failed),
    )
    return schema.text_of(model)


def _comparison(each: Comparison) -> ComparisonJson:
    return ComparisonJson(
        shape=dict(each.base.shape),
        candidate_path=each.kernel.path,
        base=_rival(each.base),
        candidate=_rival(each.candidate),
        difference=each.difference,
        ratio=RatioJson.model_validate(each.ratio) if each.ratio else None,
        base_ms=each.base_ms,
        candidate_ms=each.candidate_ms,
        protocol=schema.ProtocolJson.model_validate(each.protocol) if each.protocol else None,
        errors=list(each.errors),
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
