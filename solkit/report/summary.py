"""Saved reports on the terminal: each one, an index with the worst first, and a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from solkit.core import Verdict
from solkit.core.values import finite_or_none
from solkit.report import diff as comparison
from solkit.report import overview, units
from solkit.report.advice import Advice
from solkit.report.launch_schema import LaunchJson
from solkit.report.overview import NamedReport
from solkit.report.schema import ReportJson, ResultJson
from solkit.report.short import advice_words
from solkit.report.tables import table_without_lines
from solkit.report.widgets import (
    Row,
    factor_rows,
    labelled_texts,
    print_plainly,
    titled_rule,
    verdict_text,
)

_DETAILED = 3  # with more shapes than this, only the worst is shown in full
_LABEL_CELLS = 10


def render(reports: Sequence[NamedReport], console: Console, *, details: bool = False) -> None:
    """Print every report; if there are several, also an index and a comparison.

    Of more than three shapes, only the worst is shown in full without `details`.
    """
    for named in reports:
        print_plainly(Group(*_page(named, details)), console)
    if len(reports) > 1:
        index(reports, console)
        print_plainly(Group(*_compared(comparison.compare_reports(reports))), console)


def index(reports: Sequence[NamedReport], console: Console) -> None:
    """Print a line per report, by falling cost."""
    rows = table_without_lines(["kernel"], ["SOL", "time", "gap", "cost"], ["verdict"])
    for named, place in overview.worst_first(reports):
        verdicts = Text(", ").join(
            verdict_text(v) for v in dict.fromkeys(r.verdict for r in named.report.results)
        )
        rows.add_row(Text(named.name), *_standing(place), verdicts)
    rule = titled_rule("worst first")
    print_plainly(Group(rule, rows, Text(overview.COST_FORMULA, style="dim"), Text()), console)


def _standing(place: overview.TimeOverview | None) -> tuple[Text, ...]:
    if place is None:
        return (Text("-"),) * 4
    modelled = "" if place.measured else " expected"
    return (
        Text(units.duration(place.sol_ms)),
        Text(units.duration(place.time_ms) + modelled),
        Text(units.format_ratio(place.gap), style="bold"),
        Text(units.signed_duration(place.cost_ms)),
    )


# ------------------------------------------------------------------------------- one report


def _page(named: NamedReport, details: bool) -> Iterator[RenderableType]:
    report = named.report
    device = report.device
    yield Text.assemble((named.name, "bold"), f"  {report.kernel.path} · {report.kernel.format}")
    facts = f"{device.sm_count} SMs · {device.clock_mhz or 0:.0f} MHz ({device.clock_kind.value})"
    yield Text.assemble((device.name, "bold"), f"  {facts}")
    for failed in report.failed:
        yield Text(f"\n{units.shape_words(failed.shape)}: {failed.error}", style="red")
    yield Text()
    if report.results:
        yield _overview(report)
        yield from _sections(report, details)
    yield Text()


def _overview(report: ReportJson) -> Table:
    numbers = ("SOL", "expected", "modelled", "measured", "gap", "score")
    rows = table_without_lines(["shape"], numbers, ["limiter", "verdict"])
    for result in report.results:
        timed, score = result.measurement, result.score
        times = (
            result.bound.time_ms,
            overview.expected_ms(result),
            overview.modelled_ms(result),
            timed.median_ms if timed else None,
        )
        rows.add_row(
            Text(units.shape_words(result.shape)),
            *(Text(units.duration(time)) for time in times),
            _gap(result),
            Text(f"{score.sol_score:.2f}" if score and math.isfinite(score.sol_score) else "-"),
            Text(result.bound.limiter),
            verdict_text(result.verdict),
        )
    return rows


def _gap(result: ResultJson) -> Text:
    """Return the gap of the measured time, else of the expected one."""
    time, sol_ms = overview.time_of(result), result.bound.time_ms
    if result.score and finite_or_none(result.score.gap):
        return Text(units.format_ratio(result.score.gap))
    if time is None or time.measured or not sol_ms:
        return Text("-")
    return Text(f"{units.format_ratio(time.median_ms / sol_ms)} expected")


def _sections(report: ReportJson, details: bool) -> Iterator[RenderableType]:
    shown = list(report.results)
    if len(shown) > _DETAILED and not details:
        shown = [overview.worst(shown)]
    for result in shown:
        title = (
            f"{units.shape_words(result.shape)}  {units.format_settings(result.params)}".rstrip()
        )
        yield Text()
        yield titled_rule(title)
        yield labelled_texts(_rows(result), _LABEL_CELLS)


def _rows(result: ResultJson) -> Iterator[Row]:
    if result.gap:
        factors = ((f.name, f.factor or 1.0, f.evidence) for f in result.gap.factors)
        yield from factor_rows(factors)
    for launch in overview.launches_seen(result):
        yield "launch", Text.assemble((launch.name, "bold"), f"  {' · '.join(_facts(launch))}")
    failed = result.verdict.is_failure or result.verdict is Verdict.IMPOSSIBLE
    yield from (("errors", Text(error, style="red" if failed else "")) for error in result.errors)
    yield from (("next", advice_words(advice)) for advice in _advised(result))


def _advised(result: ResultJson) -> list[Advice]:
    """Return the advice; a report of an older SolKit does not say what it saves."""
    return result.advised or [Advice(text) for text in result.advice]


def _facts(launch: LaunchJson) -> list[str]:
    facts = [f"grid {units.format_grid(launch.grid)}", f"{launch.num_warps} warps"]
    if launch.library:
        facts = ["PyTorch's operator", *([launch.line] if launch.line else [])]
    if launch.count > 1:
        facts.append(f"{launch.count} times")
    if launch.registers is not None:
        facts += [f"{launch.registers} registers", f"{launch.spills or 'no'} spills"]
    if launch.shared_bytes is not None:
        facts.append(f"{units.binary_bytes(launch.shared_bytes)} shared")
    if launch.occupancy is not None:
        facts.append(f"occupancy {100 * launch.occupancy:.0f} %")
    if launch.model and math.isfinite(launch.model.time_ms):
        facts.append(f"modelled {units.duration(launch.model.time_ms)}")
    return facts


# ------------------------------------------------------------------------------- comparison


def _compared(groups: Sequence[comparison.Group]) -> Iterator[RenderableType]:
    for group in groups:
        yield titled_rule(f"compared at {units.shape_words(group.shape)}")
        rows = table_without_lines(["candidate"], ["time", "ratio"], ["judgement", "what changed"])
        for entry in group.entries:
            time = units.duration(entry.time.median_ms if entry.time else None)
            ratio = "-" if entry.ratio is None else units.format_ratio(entry.ratio)
            changes = Text("\n".join(entry.changes))
            rows.add_row(Text(entry.name), time, ratio, Text(entry.judgement), changes)
        yield rows
        yield Text()
