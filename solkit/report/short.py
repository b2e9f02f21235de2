"""One shape of a report in some ten lines: how fast it could be, how fast it is, what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from solkit.core import AnalysisStatus, Device, Gap, KernelAnalysis, Measurement, Result, Verdict
from solkit.report import counters, launches, units
from solkit.report.advice import Advice, advice_of_rules, kernels_seen
from solkit.report.overview import expected_ms, modelled_ms
from solkit.report.widgets import (
    Row,
    beaten_rows,
    best_rows,
    evidence_label,
    label_cells,
    labelled_texts,
    result_rule,
    verdict_text,
)

_LAUNCHES = 3
_NOTES = 2  # further ones are counted
_MATTERS = 1.02  # a smaller factor of a gap is not worth a look

_STATUS = {
    AnalysisStatus.COMPLETE: "",
    AnalysisStatus.PARTIAL: "not every launch could be analysed",
    AnalysisStatus.NO_KERNEL: "none: the file has only a reference",
    AnalysisStatus.NOT_CAPTURED: "none: no launch could be captured without a GPU",
    AnalysisStatus.NOT_ANALYSED: "none: what it launches is not analysed",
    AnalysisStatus.OUT_OF_TIME: "none: it was given up at its time limit",
    AnalysisStatus.UNSUPPORTED_DEVICE: "none: kernels are analysed for NVIDIA GPUs from sm_80 on",
}


def short_section(result: Result, device: Device) -> Iterator[RenderableType]:
    """Yield the lines of one shape."""
    label = label_cells(result.bound)
    yield result_rule(result)
    yield labelled_texts(summary_lines(result), label)
    kernels = launches.heaviest_first(kernels_seen(result))
    yield labelled_texts(_launch_rows(kernels, device), label)
    yield from counters.counter_tables(kernels[:_LAUNCHES])
    yield labelled_texts(beaten_rows(result, device), label)
    yield labelled_texts(problem_rows(result, kernels[:_LAUNCHES], _NOTES), label)
    yield labelled_texts(_advice_rows(advice_of_rules(result, device)), label)


# -------------------------------------------------------------------------------- the times


def summary_lines(result: Result) -> Iterator[Row]:
    """Yield the speed of light, the time that is measured or expected, and the gap."""
    bound, measurement, score = result.bound, result.measurement, result.score
    limiter = f", limited by {bound.limiter}"
    yield "SOL", Text.assemble((units.duration(bound.time_ms), "bold"), limiter)
    yield from best_rows(result)
    if measurement:
        yield "measured", _measured_words(measurement, result.verdict)
    elif result.verdict is not Verdict.NOT_MEASURED:
        yield "verdict", verdict_text(result.verdict)
    if (expected := expected_words(result)) is not None:
        yield "expected", expected
    if score:
        share = f", {100 * score.fraction_of_sol:.0f} % of the speed of light"
        yield (
            "gap",
            Text.assemble(
                (units.format_ratio(score.gap), "bold"), share, _largest_factor(result.gap)
            ),
        )
    elif not measurement and (gap := _expected_gap(result)) is not None:
        yield "gap", gap
    if score and measurement:
        scale = f"; the reference ({units.duration(measurement.reference_ms)}) scores 0.5"
        yield "score", Text.assemble((f"{score.sol_score:.2f}", "bold"), scale)


def expected_words(result: Result) -> Text | None:
    """Return the time that is expected, by whom; ``None`` if nobody knows."""
    model, forecast = modelled_ms(result), result.forecast
    part = "" if result.analysis.is_whole else " for the launches that are known"
    by_model = f"{units.duration(model)} by the kernel model{part}" if model is not None else ""
    if forecast is not None and forecast.time_ms is not None and not forecast.abstains:
        between = units.interval(forecast.low_ms, forecast.high_ms)
        source = f" ({between}) by the surrogate" if between else " by the surrogate"
        beside = f"; {by_model}" if by_model else ""
        return Text.assemble((units.duration(forecast.time_ms), "bold"), source, beside)
    if not by_model:
        return None
    time, _, by = by_model.partition(" by")
    doubt = "; the surrogate does not trust itself here" if forecast is not None else ""
    return Text.assemble((time, "bold"), f" by{by}{doubt}")


def _expected_gap(result: Result) -> Text | None:
    """Return the expected time over the speed of light, and the largest factor of the model's.

    Launches that are not known add to the time: then it is the least, and below 1 says nothing.
    """
    expected, sol_ms = expected_ms(result), result.bound.time_ms
    is_whole = result.analysis.is_whole
    if expected is None or sol_ms <= 0 or (not is_whole and expected < sol_ms):
        return None
    gap = result.gap
    forecast = result.forecast is not None and not result.forecast.abstains
    by_model = (
        f", {units.format_ratio(gap.time_ms / gap.sol_ms)} by the model" if gap and forecast else ""
    )
    if not forecast:
        by_model = " by the model"
    least = "" if is_whole else "at least "
    return Text.assemble(
        least, (units.format_ratio(expected / sol_ms), "bold"), by_model, _largest_factor(gap)
    )


def _largest_factor(gap: Gap | None) -> str:
    """Return the largest factor of a gap that is worth a look."""
    largest = max(gap.factors, key=lambda factor: factor.factor, default=None) if gap else None
    if largest is None or largest.factor < _MATTERS:
        return ""
    return f"; mostly {largest.name}, {units.format_ratio(largest.factor)}"


def _measured_words(measurement: Measurement, verdict: Verdict) -> Text:
    median, low, high = (
        units.duration(time_ms, digits=4)
        for time_ms in (measurement.median_ms, measurement.low_ms, measurement.high_ms)
    )
    return Text.assemble((median, "bold"), f" ({low} to {high}), ", verdict_text(verdict))


# -------------------------------------------------------------------- launches and problems


def _launch_rows(kernels: Sequence[KernelAnalysis], device: Device) -> Iterator[Row]:
    """Yield the heaviest launches, a line each, below how many they are."""
    shown = kernels[:_LAUNCHES]
    if len(kernels) > 1:
        yield "launches", Text(launches.shown_words(shown, kernels))
    for kernel in shown:
        yield "launches" if len(kernels) > 1 else "launch", launches.launch_in_brief(kernel, device)


def problem_rows(
    result: Result, shown: Sequence[KernelAnalysis], most_notes: int | None = None
) -> Iterator[Row]:
    """Yield what makes the numbers doubtful: unmodelled ops, notes of the analysis, errors.

    Args:
        result: one shape.
        shown: launches whose errors are shown already.
        most_notes: of the analysis; all by default.
    """
    analysis = result.analysis
    if result.work.unmodelled:
        yield "unmodelled", Text(", ".join(result.work.unmodelled), style="yellow")
    if _STATUS[analysis.status]:
        yield "analysis", Text(_STATUS[analysis.status], style="yellow")
    notes = [note for note in analysis.notes if note not in result.errors]
    yield from (("analysis", Text(note)) for note in notes[:most_notes])
    if most_notes is not None and len(notes) > most_notes:
        yield "analysis", Text(f"and {len(notes) - most_notes} more: --explain", style="dim")
    yield from (("analysis", Text(note, style="yellow")) for note in disagreements(result))
    launch_errors = {kernel.error for kernel in shown}
    label = evidence_label(result.verdict, result.measurement is not None)
    style = "" if label == "note" else "red"
    for error in result.errors:
        if error not in launch_errors:
            yield label, launches.error_text(error, style)


def disagreements(result: Result) -> Iterator[str]:
    """Yield differences between the real run's binaries and the analysis."""
    live = result.measurement.launches if result.measurement else ()
    seen = [kernel for kernel in result.analysis.kernels if not kernel.launch.library]
    if not live or not seen:
        return
    if [k.launch.name for k in live] != [k.launch.name for k in seen]:
        yield f"The real run made {len(live)} launches, not the {len(seen)} analysed."
        return
    for real, analysed in zip(live, seen, strict=True):
        name = real.launch.name
        facts, expected = (launches.compiled_words(k) for k in (real, analysed))
        if facts != expected:
            yield f"{name} compiled differently in the real run: {' · '.join(facts)}"
        if real.launch.grid != analysed.launch.grid:
            yield f"{name} ran on grid {real.launch.grid}, not {analysed.launch.grid}."


# ---------------------------------------------------------------------------------- advice


def advice_words(advice: Advice) -> Text:
    """Return a piece of advice in full, after what it saves."""
    return Text.assemble(*_saving_words(advice), advice.text)


def _advice_rows(advice: Sequence[Advice]) -> Iterator[Row]:
    """Yield the first piece of advice in full; of others that save enough, the first sentence."""
    first, *others = advice
    yield "next", advice_words(first)
    for piece in others:
        sentence, dot, rest = piece.text.partition(". ")
        text = f"{sentence}. …" if dot and rest else sentence
        yield "next", Text.assemble(*_saving_words(piece), text)


def _saving_words(advice: Advice) -> tuple[tuple[str, str], ...]:
    if advice.saves_ms is None or advice.speedup is None:
        return ()
    saving = (
        f"saves up to {units.duration(advice.saves_ms)} ({units.format_ratio(advice.speedup)}): "
    )
    return ((saving, "bold"),)
