"""Building blocks of the commands' pages: header, labelled lines, bars.

A page works without colour: words say the same. It fits any width from 40 columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from solkit.core import Bound, BoundTimes, Device, Measurement, Report, Resource, Result, Verdict
from solkit.report import fusion, units
from solkit.report.advice import launch_limited
from solkit.roofline.hard_bound import slack_reasons
from solkit.roofline.latency_floor import EXCHANGE_CYCLES

_LABEL_CELLS = 10
_BAR_CELLS = 40  # at most
_FEWEST_CELLS = 8
_TELLING = 0.001  # of the longest bar
_WORD_CELLS = 45  # for time, amount at ceiling, mark and gaps
_EIGHTHS = " ▏▎▍▌▋▊▉"
_PLAIN = str.maketrans(
    "µ·×█─◄•…" + _EIGHTHS[1:], "u-x#-<*." + "   ####"
)  # for terminals and pipes without Unicode
_LAUNCH_LIMITED = "launch-limited: one launch takes {}, more than the bound"

Row = tuple[str, Text]
"""A label and its text."""


def print_plainly(page: RenderableType, console: Console) -> None:
    """Print without trailing blanks, and in ASCII if the encoding is not Unicode."""
    with console.capture() as captured:
        console.print(page)
    text = re.sub(" +$", "", captured.get(), flags=re.MULTILINE)
    if not console.encoding.lower().startswith("utf"):
        text = text.translate(_PLAIN).encode("ascii", "replace").decode("ascii")
    console.file.write(text)


def report_header(report: Report) -> Iterator[RenderableType]:
    """Yield the kernel, the device, and the shapes that failed."""
    kernel, device = report.kernel, report.device
    source = "this machine (NVML)" if device.source == "nvml" else "from the catalogue"
    clock = f"{device.clock_mhz:.0f} MHz ({device.clock_kind.value} clock)"
    facts = f"{device.sm_count} SMs · {clock} · {source}"
    yield Text.assemble((kernel.name, "bold"), f"  {kernel.path} · {kernel.problem.format}")
    yield Text.assemble((device.name, "bold"), f"  {facts}")
    for note in device.notes:
        yield Text(note, style="yellow")
    for failed in report.failed:
        yield Text(f"\n{units.shape_words(failed.shape)}: {failed.error}", style="red")


def differing_sizes(results: Sequence[Result]) -> list[str]:
    """Return the sizes that differ between shapes; all if none does."""
    names = dict.fromkeys(name for result in results for name in result.shape)
    differing = [n for n in names if len({str(r.shape.get(n)) for r in results}) > 1]
    return differing or list(names)


def label_cells(bound: Bound) -> int:
    """Return the width of the column of labels."""
    return max(_LABEL_CELLS, *(len(resource.name) for resource in bound.resources), 0)


def result_rule(result: Result) -> Rule:
    """Return a line with a shape and the candidate's parameters."""
    title = f"{units.shape_words(result.shape)}  {units.format_settings(result.params)}".rstrip()
    return titled_rule(title)


def titled_rule(title: str) -> Rule:
    """Return a line across the page that begins with a title."""
    return Rule(Text(title, style="bold"), align="left", characters="─", style="dim")


def labelled_texts(rows: Iterable[Row], label: int) -> Table:
    """Return labels with their texts; a repeated label is shown once."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True, min_width=label)
    table.add_column(overflow="fold")
    previous = ""
    for name, content in rows:
        table.add_row(Text("" if name == previous else name), content)
        previous = name
    return table


def resource_bars(result: Result, label: int, width: int) -> Table:
    """Return a bar per resource and one for the measured time; only numbers on a narrow page.

    Resources that take less than 0.1 % of the busiest one's time are left out.
    """
    bound, measurement = result.bound, result.measurement
    longest_ms = max((resource.time_ms for resource in bound.resources), default=0.0)
    rows = [
        (resource.name, resource.time_ms, _resource_use(resource, bound.limiter))
        for resource in bound.resources
        if resource.time_ms >= _TELLING * longest_ms
    ]
    if measurement:
        rows.append(("measured", measurement.median_ms, ""))
    longest_ms = max((time_ms for _, time_ms, _ in rows), default=0.0) or 1.0
    cells = min(_BAR_CELLS, width - label - _WORD_CELLS)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=label)
    for justify in ("left", "right") if cells >= _FEWEST_CELLS else ("right",):
        table.add_column(justify=justify, no_wrap=True)
    table.add_column(overflow="fold")
    for name, time_ms, use in rows:
        style = {"measured": "magenta", bound.limiter: "bold cyan"}.get(name, "cyan")
        bar = (
            [Text(_eighths_bar(time_ms / longest_ms, cells), style)]
            if cells >= _FEWEST_CELLS
            else []
        )
        table.add_row(Text(name, style), *bar, Text(units.duration(time_ms)), Text(use))
    return table


def _resource_use(resource: Resource, limiter: str) -> str:
    amount = units.amount(resource.amount, resource.unit)
    mark = " ◄" if resource.name == limiter else ""
    return f"{amount} at {units.format_rate(resource.ceiling, resource.unit)}{mark}"


def _eighths_bar(fraction: float, cells: int) -> str:
    """Return a bar in eighths of a cell; never empty."""
    eighths = max(1, round(8 * cells * fraction))
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()).ljust(cells)


def bound_remarks(result: Result, assumed: tuple[str, ...]) -> Iterator[Row]:
    """Yield remarks on a bound; its assumptions only if they differ from `assumed`."""
    bound = result.bound
    yield "bounds", Text(_measured_bounds(bound.at, result.measurement))
    if launch_limited(bound):
        yield "floor", Text(_LAUNCH_LIMITED.format(units.duration(bound.at.launch_floor_ms or 0)))
    if has_long_chain(result):
        yield "floor", Text(chain_words(result))
    if result.fusion and len(result.fusion.unfused) > 1:
        yield "fusion", Text(fusion.fusion_summary(result.fusion))
    yield "precision", Text(_precision_words(bound))
    if bound.assumptions != assumed:
        yield from (("assumed", Text(sentence)) for sentence in bound.assumptions)


def best_rows(result: Result) -> Iterator[Row]:
    """Yield the best algorithm that was proven equal, where it is faster than the traced one."""
    best = result.best
    if best is None or not best.code:
        return
    times = f"{units.duration(best.roofline_ms)} → {units.duration(best.time_ms)}"
    yield "best", Text.assemble((times, "bold"), f": {best.plan}")


def best_plan(result: Result, label: int) -> Iterator[RenderableType]:
    """Yield the plan of the best algorithm as code that runs, or why there is none."""
    best = result.best
    if best is None:
        return
    if best.note:
        yield labelled_texts([("best", Text(best.note))], label)
    if not best.code:
        return
    yield Text()
    shapes = " and ".join(_shapes_words(shapes) for shapes in best.checked)
    proof = (
        "The plan. Each step holds for all values, and in doubles it ran equal to the traced "
        f"program at {shapes}; the file's own function was not run:"
    )
    yield Text(proof, style="dim")
    yield Text(best.code.rstrip())


def _shapes_words(shapes: Sequence[Sequence[int]]) -> str:
    """Write the shapes of one run: ``11x5, 5x3``."""
    return ", ".join("x".join(map(str, shape)) or "scalar" for shape in shapes)


def beaten_rows(result: Result, device: Device) -> Iterator[Row]:
    """Yield the reason why a candidate may be faster than the reference's roofline, if it is."""
    beaten = result.verdict is Verdict.BEATS_ALGORITHM and result.measurement
    if beaten:
        reasons = slack_reasons(result.work, result.bound, device, beaten.median_ms)
        yield from (("beaten by", Text(reason)) for reason in reasons)


_CHAIN_MATTERS = 0.05  # of the roofline


def has_long_chain(result: Result) -> bool:
    """Tell whether dependent steps take long enough to be shown next to the roofline."""
    floor_ms = result.bound.at.chain_floor_ms
    return floor_ms is not None and floor_ms > _CHAIN_MATTERS * result.bound.time_ms


def chain_words(result: Result) -> str:
    """Return the latency floor of dependent steps, what it is, and what it is not."""
    chain, floor_ms = result.work.chain, result.bound.at.chain_floor_ms
    assert chain is not None
    assert floor_ms is not None
    counts = ((chain.steps, "steps"), (chain.columns, "columns of factorisations"))
    steps = " and ".join(f"{number:,} {noun}" for number, noun in counts if number)
    place = f" ({chain.line.rpartition('/')[2]})" if chain.line else ""
    shared = ", which columns share" if chain.columns else ""
    return (
        f"{units.duration(floor_ms)} of latency: {steps} of this algorithm wait for one another, "
        f"up to {chain.op}{place}. It is the lesser of one SM doing all steps of an independent "
        f"part alone, and an exchange between SMs a step{shared} ({EXCHANGE_CYCLES} cycles, "
        "measured on an H100). No bound contains it: another algorithm may have a shorter chain."
    )


def factor_rows(factors: Iterable[tuple[str, float, str]]) -> Iterator[Row]:
    """Yield the factors of a gap that cost something, with their evidence."""
    for name, factor, evidence in factors:
        if abs(factor - 1) >= units.TELLING:
            yield (
                "made of",
                Text.assemble((units.format_ratio(factor), "bold"), f" {name}: {evidence}"),
            )


def evidence_label(verdict: Verdict, measured: bool) -> str:
    """Return the label of the sentences that explain a verdict."""
    if verdict in (Verdict.CHEATING, Verdict.UNSTABLE, Verdict.DEGENERATE_PROBLEM):
        return "evidence"
    return "note" if measured and not verdict.is_failure else "error"


def verdict_text(verdict: Verdict) -> Text:
    """Return a verdict in words, red if the candidate failed."""
    red = verdict.is_failure or verdict is Verdict.IMPOSSIBLE
    style = "bold red" if red else "green" if verdict is Verdict.CORRECT else ""
    return Text(verdict.value.replace("_", " "), style=style)


def _precision_words(bound: Bound) -> str:
    """Return the routes of the contractions, and what the strict one would give."""
    if bound.at.strict_ms is None:
        return bound.precision
    strict = f"fp32 in 3 tf32 passes would take {units.duration(bound.at.strict_ms)}"
    return f"{bound.precision}; {strict}"


def _measured_bounds(at: BoundTimes, measurement: Measurement | None) -> str:
    clock = measurement.sm_clock_mhz if measurement else None
    times = {
        "roofline": at.roofline_ms,
        "hard": at.hard_ms,
        "datasheet": at.datasheet_ms,
        "calibrated": at.calibrated_ms,
        f"at {clock:.0f} MHz" if clock else "at the observed clock": at.observed_clock_ms,
    }
    return " · ".join(f"{k} {units.duration(v)}" for k, v in times.items() if v is not None)
