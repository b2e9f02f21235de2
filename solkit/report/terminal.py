"""A report as a terminal page, to be read in ten seconds per shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from solkit.core import Report, Result, Verdict
from solkit.core.quantities import settings_text
from solkit.report import detailed, explain, short, units
from solkit.report.overview import expected_ms
from solkit.report.tables import table_without_lines
from solkit.report.widgets import (
    best_plan,
    differing_sizes,
    label_cells,
    labelled_texts,
    print_plainly,
    report_header,
    verdict_text,
)

if TYPE_CHECKING:
    from solkit.pipeline.hinting import Hint

_DETAILED = 3  # with more shapes than this, only the worst is shown in full


def render(
    report: Report, console: Console, *, details: bool = False, explained: bool = False
) -> None:
    """Print a report, some ten lines a shape; `explained` shows all that is known of each.

    Of more than three shapes, only the worst is shown in full without `details`.
    """
    print_plainly(Group(*_page_of_report(report, console.width, details, explained)), console)


def render_hint(report: Report, hints: Mapping[int, Hint], console: Console) -> None:
    """Print a line about the better configuration that gains most."""
    place, hint = max(hints.items(), key=lambda place_and_hint: place_and_hint[1].speedup)
    shape = (
        f" at {units.shape_words(report.results[place].shape)}" if len(report.results) > 1 else ""
    )
    params = settings_text(hint.params)
    text = (
        f"\nHint: {params} is expected to be {hint.speedup:.1f} times as fast{shape}; nothing was "
        f"measured. solkit rank {report.kernel.path} shows more."
    )
    print_plainly(Text(text), console)


def worst_result(results: Sequence[Result]) -> Result:
    """Return the result to look at first: a failed one, else the lowest SOL score."""
    return min(results, key=_standing_of_result)


def _standing_of_result(result: Result) -> tuple[int, float]:
    if result.verdict is Verdict.IMPOSSIBLE or result.verdict.is_failure:
        return 0, 0.0
    if result.score:
        return 1, result.score.sol_score
    broken = any(kernel.error for kernel in result.analysis.kernels)
    return 2, 0.0 if broken else 1.0


def _page_of_report(
    report: Report, width: int, details: bool, explained: bool
) -> Iterator[RenderableType]:
    yield from report_header(report)
    shown: Sequence[Result] = report.results
    if len(shown) > 1:
        yield Text()
        yield _overview_table(shown)
    if len(shown) > _DETAILED and not details:
        shown = [worst_result(shown)]
    assumed: tuple[str, ...] = ()
    for result in shown:
        yield Text()
        if explained:
            yield from detailed.detailed_section(result, report.device, width, assumed)
            yield from _explanation(report, result)
        else:
            yield from short.short_section(result, report.device)
        assumed = result.bound.assumptions
    if len(shown) < len(report.results):
        yield Text("\nOnly the worst shape is shown in full; --verbose shows all.", style="dim")
    if not explained:
        yield Text("\n--explain shows what the numbers rest on.", style="dim")


def _explanation(report: Report, result: Result) -> Iterator[RenderableType]:
    """Yield the best algorithm's code, the ops behind each resource, and its rate."""
    yield from best_plan(result, label_cells(result.bound))
    yield Text()
    yield explain.contributors(result.bound, report.kernel.problem.path)
    yield Text()
    yield labelled_texts(explain.ceilings_lines(result.bound), label_cells(result.bound))
    if result.bound.routes:
        yield Text()
        yield explain.precision_routes(result.bound.routes)


# ---------------------------------------------------------------------------- many shapes


def _overview_table(results: Sequence[Result]) -> Table:
    """Return a row per shape, named by the sizes that differ."""
    names = differing_sizes(results)
    measured = any(r.measurement for r in results) or not any(map(expected_ms, results))
    numbers = ["measured", "gap", "score"] if measured else ["expected", "gap"]
    rows = table_without_lines(["shape"], ["SOL", *numbers], ["limiter", "verdict"])
    for result in results:
        sizes = {name: result.shape[name] for name in names if name in result.shape}
        rows.add_row(
            Text(units.shape_words(sizes)),
            Text(units.duration(result.bound.time_ms)),
            *(_measured_cells if measured else _expected_cells)(result),
            Text(result.bound.limiter),
            verdict_text(result.verdict),
        )
    return rows


def _measured_cells(result: Result) -> tuple[Text, ...]:
    measurement, score = result.measurement, result.score
    return (
        Text(units.duration(measurement.median_ms if measurement else None)),
        Text(units.format_ratio(score.gap) if score else "-"),
        Text(f"{score.sol_score:.2f}" if score else "-", style="bold"),
    )


def _expected_cells(result: Result) -> tuple[Text, ...]:
    expected, sol_ms = expected_ms(result), result.bound.time_ms
    if expected is None:
        return Text("-"), Text("-")
    return Text(units.duration(expected)), Text(
        units.format_ratio(expected / sol_ms) if sol_ms else "-"
    )
