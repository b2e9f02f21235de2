"""Result of `solkit batch`: as a page, and as JSON ``solkit.batch/1``.

::

    solkit.batch/1 ─┬─ triage: what is worth tuning
                    └─ results: ─┬─ the fields of ``solkit.tune/1``
                                 └─ held_out: the winner at other shapes

Fields may be added, never renamed. Times are in ms and s, shares are fractions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from solkit.core import Batch, BatchItem, BatchStatus, HeldOut, Triaged, TuneVerdict, Worth
from solkit.core.codec import chosen_fields
from solkit.core.quantities import duration
from solkit.report import tuning
from solkit.report.units import format_settings, shape_words

SCHEMA = "solkit.batch/1"

_WORTH = {
    Worth.WORTH_TUNING: "worth tuning",
    Worth.NEAR_SOL: "near SOL already",
    Worth.UNKNOWN: "unknown",
}


def dumps(batch: Batch) -> str:
    """Return the result as JSON."""
    return json.dumps(as_json(batch), indent=2, allow_nan=False)


def as_json(batch: Batch) -> dict[str, Any]:
    """Return the result as ``solkit.batch/1``."""
    return {
        "schema": SCHEMA,
        **chosen_fields(batch, "manifest", "device", "triage"),
        "results": [_batch_item_json(item) for item in batch.items],
        **chosen_fields(batch, "before_ms", "saved_ms", "budget_s", "gpu_s"),
        **chosen_fields(batch, "interrupted", "log", "database", "notes"),
        "versions": dict(batch.environment),
    }


def _batch_item_json(item: BatchItem) -> dict[str, Any]:
    tuned = tuning.as_json(item.tuned)
    return {
        **{name: value for name, value in tuned.items() if name not in ("schema", "versions")},
        **chosen_fields(item, "calls", "saved_ms"),
        "held_out": [_held_out_json(held) for held in item.held_out],
        "emitted": list(item.emitted),
    }


def _held_out_json(held: HeldOut) -> dict[str, Any]:
    ratio = held.ratio
    return {
        **chosen_fields(held, "shape", "passed", "difference"),
        "ratio": None if ratio is None else ratio.value,
        "low": None if ratio is None else ratio.low,
        "high": None if ratio is None else ratio.high,
        "why": held.why,
    }


# -------------------------------------------------------------------------------------------- text


def render(batch: Batch, console: Console) -> None:
    """Print the triage, and the results if there are any."""
    console.print(f"{batch.manifest} on {batch.device}")
    console.print(_triage_table(batch.triage))
    console.print(_could_be_saved(batch.triage))
    if batch.items:
        console.print()
        console.print(_results_table(batch.items))
        for sentence in _summary_line(batch):
            console.print(sentence)
    for note in batch.notes:
        console.print(note)


def _triage_table(triage: tuple[Triaged, ...]) -> Table:
    table = Table("could save", "calls", "now", "SOL", "reachable", "kernel", "", box=None)
    for triaged in triage:
        doubt = " ?" if triaged.source in ("surrogate", "kernel model") else ""
        table.add_row(
            _format_time(triaged.saving_ms),
            f"{triaged.calls:g}",
            _format_time(triaged.now_ms) + doubt,
            _format_time(triaged.sol_ms),
            _format_time(triaged.reachable_ms),
            _name_with_shape(triaged.kernel, triaged.shape),
            f"{_WORTH[triaged.worth]}: {triaged.why}",
        )
    return table


def _could_be_saved(triage: tuple[Triaged, ...]) -> str:
    savings_ms = [triaged.saving_ms for triaged in triage if triaged.saving_ms is not None]
    counts = ", ".join(
        f"{sum(triaged.worth is worth for triaged in triage)} {words}"
        for worth, words in _WORTH.items()
    )
    if not savings_ms:
        return f"{counts}. What could be saved is not known."
    guess = (
        ". `?`: forecast" if any(e.source in ("surrogate", "kernel model") for e in triage) else ""
    )
    return f"{counts}. {duration(sum(savings_ms))} could be saved in all{guess}."


def _results_table(items: tuple[BatchItem, ...]) -> Table:
    columns = "saved", "speed-up", "95 %", "tried", "timed", "kernel", "parameters"
    table = Table(*columns, box=None)
    for item in items:
        tuned = item.tuned
        final = tuned.final
        ratio = final.ratio if final is not None and tuned.verdict is TuneVerdict.FASTER else None
        speedup, interval = "kept", ""
        if ratio is not None:
            speedup = f"{1 / ratio.value:.3f}×"
            interval = f"{1 / ratio.high:.3f} to {1 / ratio.low:.3f}"
        elif tuned.verdict is TuneVerdict.FASTER:
            speedup = "now runs"
        elif any(not held.passed for held in item.held_out):
            speedup = "taken back"
        table.add_row(
            duration(item.saved_ms) if item.saved_ms else "-",
            speedup,
            interval,
            str(tuned.measured),
            f"{tuned.l2 or '-'}{' in a graph' if tuned.launched == 'graph' else ''}",
            _name_with_shape(tuned.kernel, tuned.shape),
            format_settings(tuned.params),
        )
    return table


def _summary_line(batch: Batch) -> Iterator[str]:
    changed = sum(item.tuned.verdict is TuneVerdict.FASTER for item in batch.items)
    share = f" of {duration(batch.before_ms)}" if batch.before_ms else ""
    yield (
        f"{changed} of {len(batch.items)} changed, the others kept: all calls save "
        f"{duration(batch.saved_ms)}{share}. {batch.gpu_s:.0f} of {batch.budget_s:.0f} GPU s."
    )
    for item in batch.items:
        for held in item.held_out:
            if not held.passed:
                name = _name_with_shape(item.tuned.kernel, item.tuned.shape)
                yield f"{name}: the winner was taken back at {shape_words(held.shape)}. {held.why}"
        yield from (f"Written: {path}" for path in item.emitted)
    if batch.interrupted:
        yield "It was interrupted; --resume goes on."
    if batch.log:
        yield f"Outcomes are in {batch.log}."


def status_line(status: BatchStatus) -> str:
    """Return how far a batch is, in a line."""
    phrases = [status.stage if not status.now else f"{status.stage} {status.now}"]
    if status.budget_s:
        left_s = max(status.budget_s - status.gpu_s, 0.0)
        phrases.append(f"{left_s:.0f} of {status.budget_s:.0f} s left")
    if status.tasks:
        phrases.append(f"{status.open} of {status.tasks} open")
    if status.measured:
        phrases.append(f"{status.measured} measured")
    if status.saved_ms:
        phrases.append(f"{duration(status.saved_ms)} saved by the search's times")
    return "; ".join(phrases)


def _name_with_shape(kernel: str, shape: Any) -> str:
    words = shape_words(shape)
    return f"{kernel} at {words}" if words else kernel


def _format_time(time_ms: float | None) -> str:
    return "-" if time_ms is None else duration(time_ms)
