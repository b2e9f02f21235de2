"""Changes of a save, on the terminal: times, facts, and the modelled time of each line."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import PurePath

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from solkit.report import overview, units
from solkit.report.diff import compare_reports
from solkit.report.overview import named
from solkit.report.schema import ReportJson, ResultJson
from solkit.report.source_lines import line_number, modelled_times
from solkit.report.sources import Source
from solkit.report.tables import table_without_lines
from solkit.report.widgets import Row, labelled_texts, print_plainly, verdict_text

_LABEL_CELLS = 10
_MOST_LINES = 8
_LEAST_SHARE = 0.005  # of the modelled time: a smaller part is left out


def render(before: ReportJson, after: ReportJson, console: Console) -> None:
    """Print what changed between two reports of a file, and what to do next."""
    print_plainly(Group(*_page(before, after)), console)
    render_lines(after, console, before)


def render_lines(report: ReportJson, console: Console, before: ReportJson | None = None) -> None:
    """Print the modelled time of each line at the worst shape, beside that of an earlier report."""
    if report.results:
        print_plainly(Group(*_lines(report, before)), console)


def _page(before: ReportJson, after: ReportJson) -> Iterator[RenderableType]:
    for failed in after.failed:
        yield Text(f"{units.shape_words(failed.shape)}: {failed.error}", style="red")
    if not after.results:
        return
    earlier = {_key(result): result for result in before.results}
    yield _overview(after, earlier)
    yield Text()
    yield labelled_texts(_rows(before, after), _LABEL_CELLS)


def _key(result: ResultJson) -> str:
    return units.shape_words(result.shape)


# ---------------------------------------------------------------------------------- times


def _overview(report: ReportJson, earlier: Mapping[str, ResultJson]) -> Table:
    names = ("SOL", "expected", "modelled", "measured", "gap")
    rows = table_without_lines(["shape"], names, ["limiter", "verdict"])
    for result in report.results:
        cells, old = _cells(result), earlier.get(_key(result))
        was = _cells(old) if old else cells
        times = (_changed(one, other) for one, other in zip(was, cells, strict=True))
        limiter = Text(result.bound.limiter)
        rows.add_row(Text(_key(result)), *times, limiter, verdict_text(result.verdict))
    return rows


def _cells(result: ResultJson) -> tuple[str, ...]:
    timed, time, sol_ms = result.measurement, overview.time_of(result), result.bound.time_ms
    return (
        units.duration(sol_ms),
        units.duration(overview.expected_ms(result)),
        units.duration(overview.modelled_ms(result)),
        units.duration(timed.median_ms if timed else None),
        units.format_ratio(time.median_ms / sol_ms) if time and sol_ms else "-",
    )


def _changed(before: str, after: str) -> Text:
    if before == after:
        return Text(after)
    return Text.assemble((f"{before} → ", "dim"), (after, "bold"))


# ---------------------------------------------------------------------------------- facts


def _rows(before: ReportJson, after: ReportJson) -> Iterator[Row]:
    pair = named([before, after], ["before", "after"])
    shapes: dict[str, list[str]] = {}
    groups = compare_reports(pair)
    for group in groups:
        entry = group.entries[1]
        changes = [change for change in entry.changes if not change.startswith("source:")]
        if entry.time and entry.time.measured and entry.judgement:
            changes.append(f"measured: {entry.judgement}")
        for change in changes:
            shapes.setdefault(change, []).append(units.shape_words(group.shape))
    for change, where in shapes.items():
        everywhere = len(where) == len(groups)
        yield "changed", Text(change if everywhere else f"{', '.join(where)}: {change}")
    if not shapes and list(map(_cells, before.results)) == list(map(_cells, after.results)):
        yield "changed", Text("nothing but the source")
    worst, earlier = overview.worst(after.results), {a for r in before.results for a in r.advice}
    yield from (("errors", Text(error, style="red")) for error in worst.errors)
    yield from (("next", Text(advice)) for advice in worst.advice if advice not in earlier)


# ---------------------------------------------------------------------------------- lines


def _lines(report: ReportJson, before: ReportJson | None) -> Iterator[RenderableType]:
    result = overview.worst(report.results)
    times = modelled_times(result, report.sources)
    if not times:
        return
    old = next((r for r in before.results if _key(r) == _key(result)), None) if before else None
    earlier = _moved(before, report, modelled_times(old, before.sources)) if before and old else {}
    rows = Table.grid(padding=(0, 2, 0, 0))
    rows.add_column(justify="right", no_wrap=True)
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column()
    for place, time_ms in sorted(times.items(), key=lambda item: -item[1])[:_MOST_LINES]:
        if time_ms >= _LEAST_SHARE * sum(times.values()):
            now = units.duration(time_ms)
            was = units.duration(earlier[place]) if place in earlier else "new" if old else now
            code = Text(_code(place, report), no_wrap=True, overflow="ellipsis")
            rows.add_row(_changed(was, now), PurePath(place).name, code)
    yield Text()
    yield Text(f"modelled time by line at {_key(result)}", style="bold")
    yield rows


def _code(place: str, report: ReportJson) -> str:
    """Return the source line at a place, if the report has it."""
    for source in report.sources:
        number, lines = line_number(place, source.path), (source.text or "").splitlines()
        if number is not None and 0 < number <= len(lines):
            return lines[number - 1].strip()
    return ""


def _moved(before: ReportJson, after: ReportJson, times: Mapping[str, float]) -> dict[str, float]:
    """Return times of an earlier report by the place where each line now stands."""
    texts = {source.path: source for source in after.sources}
    moved = dict(times)
    for source in before.sources:
        new = texts.get(source.path)
        if new is None or new.text == source.text:
            continue
        places = {line_number(place, source.path): place for place in times}
        for old in places.keys() - {None}:
            moved.pop(places[old], None)
        for old, number in _matching(source, new).items():
            if old in places:
                moved[f"{places[old].rpartition(':')[0]}:{number}"] = times[places[old]]
    return moved


def _matching(before: Source, after: Source) -> dict[int | None, int]:
    """Return the number of each line of a file after an edit; an edited line keeps its place."""
    old, new = ((source.text or "").splitlines() for source in (before, after))
    numbers: dict[int | None, int] = {}
    for _, i, to_i, j, to_j in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if to_i - i == to_j - j:
            numbers |= {i + n + 1: j + n + 1 for n in range(to_i - i)}
    return numbers
