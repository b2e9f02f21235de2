"""What `solkit batch` found: as a page, and as JSON ``solkit.batch/1``.

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
from solkit.report import tuning
from solkit.report.units import duration, settings, shape_words

__all__ = ["SCHEMA", "dumps", "line", "render"]

SCHEMA = "solkit.batch/1"

_WORTH = {
    Worth.WORTH_TUNING: "worth tuning",
    Worth.NEAR_SOL: "near SOL already",
    Worth.UNKNOWN: "unknown",
}


def dumps(batch: Batch) -> str:
    """The result as JSON."""
    return json.dumps(as_json(batch), indent=2, allow_nan=False)


def as_json(batch: Batch) -> dict[str, Any]:
    """The result as ``solkit.batch/1``."""
    return {
        "schema": SCHEMA,
        "manifest": batch.manifest,
        "device": batch.device,
        "triage": [_triaged(each) for each in batch.triage],
        "results": [_item(each) for each in batch.items],
        "before_ms": batch.before_ms,
        "saved_ms": batch.saved_ms,
        "budget_s": batch.budget_s,
        "gpu_s": batch.gpu_s,
        "interrupted": batch.interrupted,
        "log": batch.log,
        "database": batch.database,
        "notes": list(batch.notes),
        "versions": dict(batch.environment),
    }


def _triaged(each: Triaged) -> dict[str, Any]:
    return {
        "kernel": each.kernel,
        "shape": dict(each.shape),
        "calls": each.calls,
        "worth": each.worth.value,
        "why": each.why,
        "sol_ms": each.sol_ms,
        "now_ms": each.now_ms,
        "source": each.source,
        "reachable_ms": each.reachable_ms,
        "saving_ms": each.saving_ms,
    }


def _item(item: BatchItem) -> dict[str, Any]:
    told = tuning.as_json(item.tuned)
    return {
        **{name: value for name, value in told.items() if name not in ("schema", "versions")},
        "calls": item.calls,
        "saved_ms": item.saved_ms,
        "held_out": [_held(each) for each in item.held_out],
        "emitted": list(item.emitted),
    }


def _held(each: HeldOut) -> dict[str, Any]:
    ratio = each.ratio
    return {
        "shape": dict(each.shape),
        "passed": each.passed,
        "difference": each.difference.value,
        "ratio": None if ratio is None else ratio.value,
        "low": None if ratio is None else ratio.low,
        "high": None if ratio is None else ratio.high,
        "why": each.why,
    }


# -------------------------------------------------------------------------------------------- text


def render(batch: Batch, console: Console) -> None:
    """Print the triage, and the results if there are any."""
    console.print(f"{batch.manifest} on {batch.device}")
    console.print(_triage(batch.triage))
    console.print(_could_be_saved(batch.triage))
    if batch.items:
        console.print()
        console.print(_results(batch.items))
        for told in _summary(batch):
            console.print(told)
    for note in batch.notes:
        console.print(note)


def _triage(triage: tuple[Triaged, ...]) -> Table:
    table = Table("could save", "calls", "now", "SOL", "reachable", "kernel", "", box=None)
    for each in triage:
        doubt = " ?" if each.source in ("surrogate", "kernel model") else ""
        table.add_row(
            _time(each.saving_ms),
            f"{each.calls:g}",
            _time(each.now_ms) + doubt,
            _time(each.sol_ms),
            _time(each.reachable_ms),
            _named(each.kernel, each.shape),
            f"{_WORTH[each.worth]}: {each.why}",
        )
    return table


def _could_be_saved(triage: tuple[Triaged, ...]) -> str:
    known = [each.saving_ms for each in triage if each.saving_ms is not None]
    counts = ", ".join(
        f"{sum(each.worth is worth for each in triage)} {words}" for worth, words in _WORTH.items()
    )
    if not known:
        return f"{counts}. What could be saved is not known."
    guess = (
        ". `?`: forecast" if any(e.source in ("surrogate", "kernel model") for e in triage) else ""
    )
    return f"{counts}. {duration(sum(known))} could be saved in all{guess}."


def _results(items: tuple[BatchItem, ...]) -> Table:
    table = Table("saved", "speed-up", "95 %", "tried", "kernel", "parameters", box=None)
    for each in items:
        tuned = each.tuned
        final = tuned.final
        ratio = final.ratio if final is not None and tuned.verdict is TuneVerdict.FASTER else None
        speedup, interval = "kept", ""
        if ratio is not None:
            speedup = f"{1 / ratio.value:.3f}×"
            interval = f"{1 / ratio.high:.3f} to {1 / ratio.low:.3f}"
        elif tuned.verdict is TuneVerdict.FASTER:
            speedup = "now runs"
        elif any(not held.passed for held in each.held_out):
            speedup = "taken back"
        table.add_row(
            duration(each.saved_ms) if each.saved_ms else "-",
            speedup,
            interval,
            str(tuned.measured),
            _named(tuned.kernel, tuned.shape),
            settings(tuned.params),
        )
    return table


def _summary(batch: Batch) -> Iterator[str]:
    changed = sum(each.tuned.verdict is TuneVerdict.FASTER for each in batch.items)
    share = f" of {duration(batch.before_ms)}" if batch.before_ms else ""
    yield (
        f"{changed} of {len(batch.items)} changed, the others kept: all calls save "
        f"{duration(batch.saved_ms)}{share}. {batch.gpu_s:.0f} of {batch.budget_s:.0f} GPU s."
    )
    for each in batch.items:
        for held in each.held_out:
            if not held.passed:
                name = _named(each.tuned.kernel, each.tuned.shape)
                yield f"{name}: the winner was taken back at {shape_words(held.shape)}. {held.why}"
        yield from (f"Written: {path}" for path in each.emitted)
    if batch.interrupted:
        yield "It was interrupted; --resume goes on."
    if batch.log:
        yield f"Outcomes are in {batch.log}."


def line(status: BatchStatus) -> str:
    """How far a batch is, in a line."""
    told = [status.stage if not status.now else f"{status.stage} {status.now}"]
    if status.budget_s:
        left_s = max(status.budget_s - status.gpu_s, 0.0)
        told.append(f"{left_s:.0f} of {status.budget_s:.0f} s left")
    if status.tasks:
        told.append(f"{status.open} of {status.tasks} open")
    if status.measured:
        told.append(f"{status.measured} measured")
    if status.saved_ms:
        told.append(f"{duration(status.saved_ms)} saved by the search's times")
    return "; ".join(told)


def _named(kernel: str, shape: Any) -> str:
    words = shape_words(shape)
    return f"{kernel} at {words}" if words else kernel


def _time(time_ms: float | None) -> str:
    return "-" if time_ms is None else duration(time_ms)
