"""All that is known of one shape of a report: `solkit score --explain`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from solkit.core import Device, KernelAnalysis, Measurement, Protocol, Result
from solkit.report import counters, launches, short, units
from solkit.report.advice import advice_of_rules, kernels_seen
from solkit.report.widgets import (
    Row,
    beaten_rows,
    bound_remarks,
    factor_rows,
    label_cells,
    labelled_texts,
    resource_bars,
    result_rule,
)

_LAUNCHES = 12  # further ones are counted, not shown


def detailed_section(
    result: Result, device: Device, width: int, assumed: tuple[str, ...]
) -> Iterator[RenderableType]:
    """Yield one shape; its assumptions are left out if they equal `assumed`."""
    label = label_cells(result.bound)
    kernels = launches.heaviest_first(kernels_seen(result))
    yield result_rule(result)
    yield labelled_texts(short.summary_lines(result), label)
    yield Text()
    yield resource_bars(result, label, width)
    yield Text()
    yield labelled_texts(_time_breakdown(result, kernels), label)
    yield from counters.counter_tables(kernels[:_LAUNCHES])
    yield labelled_texts(_section_remarks(result, device, assumed, kernels), label)
    rows = (("next", short.advice_words(advice)) for advice in advice_of_rules(result, device))
    yield labelled_texts(rows, label)


def _time_breakdown(result: Result, kernels: Sequence[KernelAnalysis]) -> Iterator[Row]:
    """Yield the modelled time of each launch, and the factors of the gap."""
    for kernel in kernels[:_LAUNCHES]:
        if kernel.model:
            terms = (f"{term.name} {units.duration(term.time_ms)}" for term in kernel.model.terms)
            time = (units.duration(kernel.model.time_ms), "bold")
            count = kernel.launch.count
            times = f" ({count} times)" if count > 1 else ""
            words = f" {kernel.launch.name}{times}: {', '.join(terms)}"
            yield "modelled", Text.assemble(time, words)
    yield from _moved_bytes_lines(result, kernels)
    if result.gap:
        yield from factor_rows((f.name, f.factor, f.evidence) for f in result.gap.factors)


def _moved_bytes_lines(result: Result, kernels: Sequence[KernelAnalysis]) -> Iterator[Row]:
    """Yield what all launches move from and to DRAM, next to what the problem needs."""
    seen = [(kernel.demand, kernel.launch.count) for kernel in kernels]
    demands = [(demand, count) for demand, count in seen if demand is not None]
    if not demands or len(demands) < len(seen):
        return
    work = result.work
    amounts = []
    for verb, moved, needed in (
        ("read", sum(n * demand.dram_read_bytes for demand, n in demands), work.dram_read_bytes),
        (
            "written",
            sum(n * demand.dram_write_bytes for demand, n in demands),
            work.dram_write_bytes,
        ),
    ):
        amounts.append(f"{units.amount(moved, 'B')} {verb} ({units.amount(needed, 'B')} needed)")
    yield "bytes", Text(", ".join(amounts))


def _section_remarks(
    result: Result, device: Device, assumed: tuple[str, ...], kernels: Sequence[KernelAnalysis]
) -> Iterator[Row]:
    yield from bound_remarks(result, assumed)
    yield from beaten_rows(result, device)
    shown = kernels[:_LAUNCHES]
    if len(kernels) > 1:
        yield "launches", Text(launches.shown_words(shown, kernels))
    for kernel in shown:
        label = "launches" if len(kernels) > 1 else "launch"
        yield label, launches.launch_in_full(kernel, device)
    if len(kernels) > len(shown):
        yield "launches", Text(f"and {len(kernels) - len(shown)} more, all in --json", style="dim")
    if result.protocol and result.measurement:
        yield "timing", Text(_timing_line(result.protocol, result.measurement))
    yield from short.problem_rows(result, shown)


def _timing_line(protocol: Protocol, measurement: Measurement) -> str:
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
