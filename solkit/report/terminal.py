"""A report as a terminal page, to be read in ten seconds per shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from solkit.core import (
    AnalysisStatus,
    Device,
    Gap,
    KernelAnalysis,
    Measurement,
    Protocol,
    Report,
    Result,
    Verdict,
)
from solkit.report import counters, explain, units
from solkit.report.advice import advise, kernels_seen, out_of_resources
from solkit.report.parts import (
    Row,
    bars,
    bound_remarks,
    differing_sizes,
    evidence_label,
    factor_rows,
    header,
    label_cells,
    labelled,
    print_plainly,
    verdict_text,
)
from solkit.report.tables import columns

if TYPE_CHECKING:
    from solkit.pipeline.hinting import Hint

__all__ = ["render", "render_hint", "worst"]

_DETAILED = 3  # with more shapes than this, only the worst is shown in full
_LAUNCHES = 6  # further ones are counted, not shown
_ERROR_LINES = 12
_MATTERS = 1.02  # a smaller factor of a gap is not worth a look

_STATUS = {
    AnalysisStatus.COMPLETE: "",
    AnalysisStatus.PARTIAL: "not every launch could be analysed",
    AnalysisStatus.NO_KERNEL: "none: the file has only a reference",
    AnalysisStatus.NOT_CAPTURED: "none: no launch could be captured without a GPU",
    AnalysisStatus.NOT_ANALYSED: "none: what it launches is not analysed",
    AnalysisStatus.UNSUPPORTED_DEVICE: "none: kernels are analysed for NVIDIA GPUs from sm_80 on",
}


def render(
    report: Report, console: Console, *, details: bool = False, explained: bool = False
) -> None:
    """Print a report; `explained` adds the ops behind each resource.

    Of more than three shapes, only the worst is shown in full without `details`.
    """
    print_plainly(Group(*_page(report, console.width, details, explained)), console)


def render_hint(report: Report, hints: Mapping[int, Hint], console: Console) -> None:
    """Print a line about the better configuration that gains most."""
    place, hint = max(hints.items(), key=lambda each: each[1].speedup)
    shape = (
        f" at {units.shape_words(report.results[place].shape)}" if len(report.results) > 1 else ""
    )
    params = ", ".join(f"{name}={value}" for name, value in hint.params.items())
    text = (
        f"\nHint: {params} is expected to be {hint.speedup:.1f} times as fast{shape}; nothing was "
        f"measured. solkit rank {report.kernel.path} shows more."
    )
    print_plainly(Text(text), console)


def worst(results: Sequence[Result]) -> Result:
    """The result to look at first: one that failed, then the lowest SOL score, then the first."""
    return min(results, key=_standing)


def _standing(result: Result) -> tuple[int, float]:
    if result.verdict is Verdict.IMPOSSIBLE or result.verdict.is_failure:
        return 0, 0.0
    if result.score:
        return 1, result.score.sol_score
    broken = any(kernel.error for kernel in result.analysis.kernels)
    return 2, 0.0 if broken else 1.0


def _page(report: Report, width: int, details: bool, explained: bool) -> Iterator[RenderableType]:
    yield from header(report)
    shown: Sequence[Result] = report.results
    if len(shown) > 1:
        yield Text()
        yield _overview(shown)
    if len(shown) > _DETAILED and not details:
        shown = [worst(shown)]
    assumed: tuple[str, ...] = ()
    for result in shown:
        yield Text()
        yield from _section(result, report.device, width, assumed)
        if explained:
            yield from (
                Text(),
                explain.contributors(result.bound, report.kernel.problem.path),
                Text(),
            )
            yield labelled(explain.ceilings(result.bound), label_cells(result.bound))
        assumed = result.bound.assumptions
    if len(shown) < len(report.results):
        yield Text("\nOnly the worst shape is shown in full; --verbose shows all.", style="dim")


# ---------------------------------------------------------------------------- many shapes


def _overview(results: Sequence[Result]) -> Table:
    """A row per shape, named by the sizes that differ."""
    names = differing_sizes(results)
    measured = any(r.measurement for r in results) or not any(r.gap for r in results)
    numbers = ["measured", "gap", "score"] if measured else ["modelled", "gap"]
    rows = columns(["shape"], ["SOL", *numbers], ["limiter", "verdict"])
    for result in results:
        sizes = {name: result.shape[name] for name in names if name in result.shape}
        rows.add_row(
            Text(units.shape_words(sizes)),
            Text(units.duration(result.bound.time_ms)),
            *(_measured_cells if measured else _modelled_cells)(result),
            Text(result.bound.limiter),
            verdict_text(result.verdict),
        )
    return rows


def _measured_cells(result: Result) -> tuple[Text, ...]:
    measurement, score = result.measurement, result.score
    return (
        Text(units.duration(measurement.median_ms if measurement else None)),
        Text(units.ratio(score.gap) if score else "-"),
        Text(f"{score.sol_score:.2f}" if score else "-", style="bold"),
    )


def _modelled_cells(result: Result) -> tuple[Text, ...]:
    gap = result.gap
    times = (units.duration(gap.time_ms), units.ratio(_of(gap))) if gap else ("-", "-")
    return tuple(map(Text, times))


def _of(gap: Gap) -> float:
    return gap.time_ms / gap.sol_ms


# ------------------------------------------------------------------------------ one shape


def _section(
    result: Result, device: Device, width: int, assumed: tuple[str, ...]
) -> Iterator[RenderableType]:
    """One shape; its assumptions are left out if they equal `assumed`."""
    title = f"{units.shape_words(result.shape)}  {units.settings(result.params)}".rstrip()
    label = label_cells(result.bound)
    yield Rule(Text(title, style="bold"), align="left", characters="─", style="dim")
    yield labelled(_summary(result), label)
    yield Text()
    yield bars(result, label, width)
    yield Text()
    yield labelled(_breakdown(result), label)
    yield from counters.tables(kernels_seen(result)[:_LAUNCHES])
    yield labelled(_remarks(result, device, assumed), label)
    yield labelled((("next", Text(advice)) for advice in advise(result, device)), label)


def _summary(result: Result) -> Iterator[Row]:
    bound, measurement, score = result.bound, result.measurement, result.score
    limiter = f", limited by {bound.limiter}"
    yield "SOL", Text.assemble((units.duration(bound.time_ms), "bold"), limiter)
    if measurement:
        yield "measured", _measured(measurement, result.verdict)
    else:
        yield "verdict", verdict_text(result.verdict)
    if score:
        share = f", {100 * score.fraction_of_sol:.0f} % of the speed of light"
        yield "gap", Text.assemble((units.ratio(score.gap), "bold"), share, _mostly(result.gap))
    elif result.gap and not measurement:
        part = "" if result.analysis.is_whole else " for the launches that are known"
        told = f" by the model ({units.duration(result.gap.time_ms)}{part})"
        yield (
            "gap",
            Text.assemble((units.ratio(_of(result.gap)), "bold"), told, _mostly(result.gap)),
        )
    if score and measurement:
        scale = f"; the reference ({units.duration(measurement.reference_ms)}) scores 0.5"
        yield "score", Text.assemble((f"{score.sol_score:.2f}", "bold"), scale)


def _mostly(gap: Gap | None) -> str:
    """The largest factor of a gap that is worth a look."""
    largest = max(gap.factors, key=lambda factor: factor.factor, default=None) if gap else None
    if largest is None or largest.factor < _MATTERS:
        return ""
    return f"; mostly {largest.name}, {units.ratio(largest.factor)}"


def _measured(measurement: Measurement, verdict: Verdict) -> Text:
    median, low, high = (
        units.duration(time_ms, digits=4)
        for time_ms in (measurement.median_ms, measurement.low_ms, measurement.high_ms)
    )
    return Text.assemble((median, "bold"), f" ({low} to {high}), ", verdict_text(verdict))


def _breakdown(result: Result) -> Iterator[Row]:
    """The modelled time of each launch, and the factors of the gap."""
    for kernel in kernels_seen(result)[:_LAUNCHES]:
        if kernel.model:
            terms = (f"{term.name} {units.duration(term.time_ms)}" for term in kernel.model.terms)
            time = (units.duration(kernel.model.time_ms), "bold")
            count = kernel.launch.count
            times = f" ({count} times)" if count > 1 else ""
            told = f" {kernel.launch.name}{times}: {', '.join(terms)}"
            yield "modelled", Text.assemble(time, told)
    yield from _moved(result)
    if result.gap:
        yield from factor_rows((f.name, f.factor, f.evidence) for f in result.gap.factors)


def _moved(result: Result) -> Iterator[Row]:
    """What all launches move from and to DRAM, beside what the problem needs."""
    seen = [(kernel.demand, kernel.launch.count) for kernel in kernels_seen(result)]
    demands = [(demand, count) for demand, count in seen if demand is not None]
    if not demands or len(demands) < len(seen):
        return
    work = result.work
    told = []
    for verb, moved, needed in (
        ("read", sum(n * each.dram_read_bytes for each, n in demands), work.dram_read_bytes),
        ("written", sum(n * each.dram_write_bytes for each, n in demands), work.dram_write_bytes),
    ):
        told.append(f"{units.amount(moved, 'B')} {verb} ({units.amount(needed, 'B')} needed)")
    yield "bytes", Text(", ".join(told))


# -------------------------------------------------------------------------------- remarks


def _remarks(result: Result, device: Device, assumed: tuple[str, ...]) -> Iterator[Row]:
    yield from bound_remarks(result, device, assumed)
    analysis = result.analysis
    yield from (("launch", launch) for launch in _launches(kernels_seen(result)))
    if result.protocol and result.measurement:
        yield "timing", Text(_timing(result.protocol, result.measurement))
    if _STATUS[analysis.status]:
        yield "analysis", Text(_STATUS[analysis.status], style="yellow")
    notes = (note for note in analysis.notes if note not in result.errors)
    yield from (("analysis", Text(note)) for note in notes)
    yield from (("analysis", Text(note, style="yellow")) for note in _disagreements(result))
    shown = {kernel.error for kernel in kernels_seen(result)[:_LAUNCHES]}
    label = evidence_label(result.verdict, result.measurement is not None)
    style = "" if label == "note" else "red"
    yield from ((label, _error(error, style)) for error in result.errors if error not in shown)


def _launches(kernels: Sequence[KernelAnalysis]) -> Iterator[Text]:
    for kernel in kernels[:_LAUNCHES]:
        yield _launch(kernel)
    if len(kernels) > _LAUNCHES:
        yield Text(f"and {len(kernels) - _LAUNCHES} more, all in --json", style="dim")


def _launch(kernel: KernelAnalysis) -> Text:
    launch, compiled = kernel.launch, _compiled(kernel)
    if launch.library:
        return _operator(kernel)
    facts = [
        f"grid {units.grid(launch.grid)}",
        f"{launch.num_warps} warps",
        f"{launch.num_stages} stages",
    ]
    if launch.num_ctas > 1:
        facts.append(f"clusters of {launch.num_ctas}")
    if launch.count > 1:
        facts.append(f"{launch.count} times")
    text = Text.assemble((launch.name, "bold"), f"  {' · '.join(facts)}")
    if compiled:
        text.append("\n" + " · ".join([*compiled, *_bytes(kernel)]))
    if kernel.error:
        how = "needs more than the GPU has" if out_of_resources(kernel) else "does not compile"
        text.append(f"\n{how}: ", style="bold red").append_text(_error(kernel.error, "red"))
    return text


def _operator(kernel: KernelAnalysis) -> Text:
    """A launch of one of PyTorch's operators."""
    launch = kernel.launch
    facts = ["PyTorch's operator", *([launch.line] if launch.line else [])]
    if launch.count > 1:
        facts.append(f"{launch.count} times")
    facts += _bytes(kernel)
    return Text.assemble((launch.name, "bold"), f"  {' · '.join(facts)}")


def _bytes(kernel: KernelAnalysis) -> list[str]:
    """What a launch moves from and to DRAM."""
    demand = kernel.demand
    if demand is None:
        return []
    both = (units.amount(n, "B") for n in (demand.dram_read_bytes, demand.dram_write_bytes))
    return ["{} read, {} written".format(*both)]


def _compiled(kernel: KernelAnalysis) -> list[str]:
    """Facts of the compiled kernel; empty if it did not compile."""
    occupancy, facts, parts = kernel.occupancy, kernel.facts, []
    if facts.registers is not None:
        parts += [f"{facts.registers} registers", f"{facts.spills or 'no'} spills"]
    if facts.shared_bytes is not None:
        parts.append(f"{units.binary_bytes(facts.shared_bytes)} shared")
    if facts.tensor_cores is not None:
        parts.append("tensor cores" if facts.tensor_cores else "no tensor cores")
    if occupancy:
        parts.append(f"occupancy {100 * occupancy.fraction:.0f} % (limit: {occupancy.limiter})")
        parts.append(f"{occupancy.waves:.3g} waves")
    return parts


def _timing(protocol: Protocol, measurement: Measurement) -> str:
    facts = [
        f"{measurement.method}, {protocol.l2} L2 ({protocol.flush})",
        f"{measurement.samples} calls after {protocol.warmup_calls} to warm up",
        f"largest error {measurement.max_error:.3g}",
    ]
    if measurement.kernel_sum_ms is not None:
        facts.append(f"kernels alone {units.duration(measurement.kernel_sum_ms)}")
    if measurement.sm_clock_mhz is not None:
        facts.append(f"SM clock {measurement.sm_clock_mhz:.0f} MHz")
    return " · ".join(facts)


def _disagreements(result: Result) -> Iterator[str]:
    """Differences between the real run's binaries and the analysis."""
    live = result.measurement.launches if result.measurement else ()
    seen = [kernel for kernel in result.analysis.kernels if not kernel.launch.library]
    if not live or not seen:
        return
    if [k.launch.name for k in live] != [k.launch.name for k in seen]:
        yield f"The real run made {len(live)} launches, not the {len(seen)} analysed."
        return
    for real, analysed in zip(live, seen, strict=True):
        name = real.launch.name
        facts, expected = (_compiled(replace(k, occupancy=None)) for k in (real, analysed))
        if facts != expected:
            yield f"{name} compiled differently in the real run: {' · '.join(facts)}"
        if real.launch.grid != analysed.launch.grid:
            yield f"{name} ran on grid {real.launch.grid}, not {analysed.launch.grid}."


def _error(error: str, style: str) -> Text:
    lines = Text.from_ansi(error.strip()).plain.splitlines()
    more = [f"… and {len(lines) - _ERROR_LINES} more lines"] if len(lines) > _ERROR_LINES else []
    return Text("\n".join([*lines[:_ERROR_LINES], *more]), style=style)
