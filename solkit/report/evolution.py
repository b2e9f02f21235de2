"""Result of `solkit evolve`: as a page, and as JSON ``solkit.evolve/1``."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.tree import Tree

from solkit.core import (
    Bred,
    Evolved,
    EvolveStatus,
    Finalist,
    Gate,
    HeldOut,
    TimedParams,
    TuneVerdict,
)
from solkit.report.tuning import final_json, speedup_json, stopped_words
from solkit.report.units import duration, format_settings, shape_words

__all__ = ["SCHEMA", "as_json", "dumps", "render", "status_line"]

SCHEMA = "solkit.evolve/1"
_MOST_SHOWN = 20  # variants in the tree on a terminal; the JSON and the HTML page have all


def dumps(evolved: Evolved) -> str:
    """Return the result as JSON; times in ms and s, shares as fractions."""
    return json.dumps(as_json(evolved), indent=2, allow_nan=False)


def as_json(evolved: Evolved) -> dict[str, Any]:
    """Return the result as ``solkit.evolve/1``."""
    return {
        "schema": SCHEMA,
        "kernel": evolved.kernel,
        "problem_id": evolved.problem_id,
        "shape": dict(evolved.shape),
        "device": evolved.device,
        "sol_ms": evolved.sol_ms,
        "original": _timed_json(evolved.original),
        "best": {"id": evolved.best, **_timed_json(evolved.best_params)},
        "verdict": evolved.verdict.value,
        "speedup": None if evolved.gate is None else speedup_json(evolved.gate.final),
        "gate": _gate_json(evolved.gate),
        "finalists": [_finalist_json(finalist) for finalist in evolved.finalists],
        "variants": [_variant_json(variant) for variant in evolved.variants],
        "rounds": evolved.rounds,
        "measured": evolved.measured,
        "failed": evolved.failed,
        "gpu_s": evolved.gpu_s,
        "stopped": evolved.stopped.value,
        "trajectory": [{"gpu_s": at.gpu_s, "best_ms": at.best_ms} for at in evolved.trajectory],
        "cost": evolved.cost,
        "log": evolved.log,
        "out": evolved.out,
        "notes": list(evolved.notes),
        "versions": dict(evolved.environment),
    }


def _timed_json(timed: TimedParams) -> dict[str, Any]:
    return {"params": dict(timed.params), "time_ms": timed.time_ms, "message": timed.message}


def _gate_json(gate: Gate | None) -> dict[str, Any] | None:
    if gate is None:
        return None
    return {
        "passed": gate.passed,
        "single_shape": gate.single_shape,
        "why": gate.why,
        "final": final_json(gate.final),
        "held_out": [_held_out_json(held) for held in gate.held_out],
    }


def _finalist_json(finalist: Finalist) -> dict[str, Any]:
    return {
        "id": finalist.id,
        "params": dict(finalist.params),
        "time_ms": finalist.time_ms,
        "taken": finalist.taken,
        "practice": [
            {"shape": dict(at.shape), "verdict": at.verdict.value, "ratio": at.ratio}
            for at in finalist.practised
        ],
    }


def _held_out_json(held: HeldOut) -> dict[str, Any]:
    return {
        "shape": dict(held.shape),
        "passed": held.passed,
        "difference": held.difference.value,
        "ratio": None if held.ratio is None else held.ratio.value,
        "why": held.why,
    }


def _variant_json(bred: Bred) -> dict[str, Any]:
    variant = bred.variant
    return {
        "id": variant.id,
        "parent": variant.parent,
        "kind": variant.kind,
        "intent": variant.intent,
        "proposer": variant.proposer,
        "checked": variant.checked.value,
        "verdict": bred.verdict.value,
        "params": dict(bred.params),
        "time_ms": bred.time_ms,
        "gap": bred.gap,
        "forecast_ms": bred.forecast_ms,
        "measured": bred.measured,
        "behaviour": list(bred.behaviour),
        "why": bred.why or variant.why,
        "source": variant.source,
    }


# -------------------------------------------------------------------------------------------- text


def render(evolved: Evolved, console: Console) -> None:
    """Print the result."""
    console.print(f"{evolved.kernel} at {shape_words(evolved.shape)} on {evolved.device}")
    console.print(f"  in use  {_format_timed(evolved.original, evolved.sol_ms)}")
    if evolved.verdict is TuneVerdict.FASTER:
        console.print(f"  best    {_format_timed(evolved.best_params, evolved.sol_ms)}")
    console.print(f"  {_answer_lines(evolved)}")
    console.print(_lineage_tree(evolved))
    measured = f"{evolved.measured} measured in {evolved.gpu_s:.1f} GPU s"
    failed = f", {evolved.failed} of them failed" if evolved.failed else ""
    proposed = f"{len(evolved.variants) - 1} variants in {evolved.rounds} rounds"
    why = stopped_words(evolved.stopped)
    console.print(f"  {proposed}; {measured}{failed}; stopped because {why}.")
    if evolved.cost:
        console.print(f"  The model cost {evolved.cost:.4f}.")
    for note in evolved.notes:
        console.print(f"  {note}")
    if evolved.out is not None:
        console.print(f"  Written: {evolved.out}")


def _format_timed(timed: TimedParams, sol_ms: float | None) -> str:
    params = f"  ({format_settings(timed.params)})" if timed.params else ""
    if timed.time_ms is None:
        why = f"fails: {timed.message}" if timed.message else "was not measured"
        return why + params
    gap = f", {timed.time_ms / sol_ms:.2f} times the speed of light" if sol_ms else ""
    return f"{duration(timed.time_ms)}{gap}{params}"


def _answer_lines(evolved: Evolved) -> str:
    gate = evolved.gate
    if gate is None:
        return "Keep what you have: nothing was faster."
    comparison = ""
    if (speedup := speedup_json(gate.final)) is not None:
        high = "" if speedup["high"] is None else f"{speedup['high']:.3f}"
        comparison = f"{speedup['value']:.3f} times as fast (95 %: {speedup['low']:.3f} to {high})"
    if gate.passed:
        return f"Use the best: {comparison}. {gate.why}"
    return f"Keep what you have. The best did not pass the gate: {gate.why}"


def _lineage_tree(evolved: Evolved) -> Tree:
    """Return the lineage of what was measured, and how many more there were."""
    first = evolved.variants[0]
    tree = Tree(_leaf_of_variant(first, evolved))
    places = {first.variant.id: tree}
    shown = [bred for bred in evolved.variants[1:] if bred.measured][:_MOST_SHOWN]
    for bred in shown:
        above = places.get(bred.variant.parent or "", tree)
        places[bred.variant.id] = above.add(_leaf_of_variant(bred, evolved))
    if (more := len(evolved.variants) - 1 - len(shown)) > 0:
        tree.add(f"{more} more, not shown: most were not measured")
    return tree


def _leaf_of_variant(bred: Bred, evolved: Evolved) -> str:
    phrases = [bred.variant.kind]
    if bred.time_ms is not None:
        gap = "" if bred.gap is None else f", gap {bred.gap:.2f}"
        phrases.append(f"{duration(bred.time_ms)}{gap}")
    elif bred.measured:
        phrases.append(bred.verdict.value)
    if bred.variant.id == evolved.best:
        phrases.append("◄")
    return "  ".join(phrases)


def status_line(status: EvolveStatus) -> str:
    """Return how far a run is, in a line."""
    phrases = [status.stage]
    if status.budget_s:
        phrases.append(
            f"{max(status.budget_s - status.gpu_s, 0):.0f} of {status.budget_s:.0f} s left"
        )
    if status.proposed:
        phrases.append(f"{status.proposed} proposed")
    if status.measured:
        failed = f" ({status.failed} failed)" if status.failed else ""
        phrases.append(f"{status.measured} measured{failed}")
    if status.best_ms is not None:
        gap = "" if status.gap is None else f", {status.gap:.2f} times the speed of light"
        phrases.append(f"best {duration(status.best_ms)}{gap} ({status.best_kind})")
    return "; ".join(phrases)
