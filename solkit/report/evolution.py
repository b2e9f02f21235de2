"""What `solkit evolve` found: as a page, and as JSON ``solkit.evolve/1``."""

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
from solkit.report.units import duration, settings, shape_words

__all__ = ["SCHEMA", "as_json", "dumps", "line", "render"]

SCHEMA = "solkit.evolve/1"
_MOST_SHOWN = 20  # variants in the tree on a terminal; the JSON and the HTML page have all


def dumps(evolved: Evolved) -> str:
    """The result as JSON; times in ms and s, shares as fractions."""
    return json.dumps(as_json(evolved), indent=2, allow_nan=False)


def as_json(evolved: Evolved) -> dict[str, Any]:
    """The result as ``solkit.evolve/1``."""
    return {
        "schema": SCHEMA,
        "kernel": evolved.kernel,
        "problem_id": evolved.problem_id,
        "shape": dict(evolved.shape),
        "device": evolved.device,
        "sol_ms": evolved.sol_ms,
        "original": _timed(evolved.original),
        "best": {"id": evolved.best, **_timed(evolved.best_params)},
        "verdict": evolved.verdict.value,
        "speedup": None if evolved.gate is None else speedup_json(evolved.gate.final),
        "gate": _gate(evolved.gate),
        "finalists": [_finalist(each) for each in evolved.finalists],
        "variants": [_variant(each) for each in evolved.variants],
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


def _timed(each: TimedParams) -> dict[str, Any]:
    return {"params": dict(each.params), "time_ms": each.time_ms, "message": each.message}


def _gate(gate: Gate | None) -> dict[str, Any] | None:
    if gate is None:
        return None
    return {
        "passed": gate.passed,
        "single_shape": gate.single_shape,
        "why": gate.why,
        "final": final_json(gate.final),
        "held_out": [_held(each) for each in gate.held_out],
    }


def _finalist(each: Finalist) -> dict[str, Any]:
    return {
        "id": each.id,
        "params": dict(each.params),
        "time_ms": each.time_ms,
        "taken": each.taken,
        "practice": [
            {"shape": dict(at.shape), "verdict": at.verdict.value, "ratio": at.ratio}
            for at in each.practised
        ],
    }


def _held(each: HeldOut) -> dict[str, Any]:
    return {
        "shape": dict(each.shape),
        "passed": each.passed,
        "difference": each.difference.value,
        "ratio": None if each.ratio is None else each.ratio.value,
        "why": each.why,
    }


def _variant(each: Bred) -> dict[str, Any]:
    variant = each.variant
    return {
        "id": variant.id,
        "parent": variant.parent,
        "kind": variant.kind,
        "intent": variant.intent,
        "proposer": variant.proposer,
        "checked": variant.checked.value,
        "verdict": each.verdict.value,
        "params": dict(each.params),
        "time_ms": each.time_ms,
        "gap": each.gap,
        "forecast_ms": each.forecast_ms,
        "measured": each.measured,
        "behaviour": list(each.behaviour),
        "why": each.why or variant.why,
        "source": variant.source,
    }


# -------------------------------------------------------------------------------------------- text


def render(evolved: Evolved, console: Console) -> None:
    """Print the result."""
    console.print(f"{evolved.kernel} at {shape_words(evolved.shape)} on {evolved.device}")
    console.print(f"  in use  {_told(evolved.original, evolved.sol_ms)}")
    if evolved.verdict is TuneVerdict.FASTER:
        console.print(f"  best    {_told(evolved.best_params, evolved.sol_ms)}")
    console.print(f"  {_answer(evolved)}")
    console.print(_tree(evolved))
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


def _told(each: TimedParams, sol_ms: float | None) -> str:
    params = f"  ({settings(each.params)})" if each.params else ""
    if each.time_ms is None:
        why = f"fails: {each.message}" if each.message else "was not measured"
        return why + params
    gap = f", {each.time_ms / sol_ms:.2f} times the speed of light" if sol_ms else ""
    return f"{duration(each.time_ms)}{gap}{params}"


def _answer(evolved: Evolved) -> str:
    gate = evolved.gate
    if gate is None:
        return "Keep what you have: nothing was faster."
    told = ""
    if (speedup := speedup_json(gate.final)) is not None:
        high = "" if speedup["high"] is None else f"{speedup['high']:.3f}"
        told = f"{speedup['value']:.3f} times as fast (95 %: {speedup['low']:.3f} to {high})"
    if gate.passed:
        return f"Use the best: {told}. {gate.why}"
    return f"Keep what you have. The best did not pass the gate: {gate.why}"


def _tree(evolved: Evolved) -> Tree:
    """The lineage of what was measured, and how many more there were."""
    first = evolved.variants[0]
    tree = Tree(_leaf(first, evolved))
    places = {first.variant.id: tree}
    shown = [each for each in evolved.variants[1:] if each.measured][:_MOST_SHOWN]
    for each in shown:
        above = places.get(each.variant.parent or "", tree)
        places[each.variant.id] = above.add(_leaf(each, evolved))
    if (more := len(evolved.variants) - 1 - len(shown)) > 0:
        tree.add(f"{more} more, not shown: most were not measured")
    return tree


def _leaf(each: Bred, evolved: Evolved) -> str:
    told = [each.variant.kind]
    if each.time_ms is not None:
        gap = "" if each.gap is None else f", gap {each.gap:.2f}"
        told.append(f"{duration(each.time_ms)}{gap}")
    elif each.measured:
        told.append(each.verdict.value)
    if each.variant.id == evolved.best:
        told.append("◄")
    return "  ".join(told)


def line(status: EvolveStatus) -> str:
    """How far a run is, in a line."""
    told = [status.stage]
    if status.budget_s:
        told.append(f"{max(status.budget_s - status.gpu_s, 0):.0f} of {status.budget_s:.0f} s left")
    if status.proposed:
        told.append(f"{status.proposed} proposed")
    if status.measured:
        failed = f" ({status.failed} failed)" if status.failed else ""
        told.append(f"{status.measured} measured{failed}")
    if status.best_ms is not None:
        gap = "" if status.gap is None else f", {status.gap:.2f} times the speed of light"
        told.append(f"best {duration(status.best_ms)}{gap} ({status.best_kind})")
    return "; ".join(told)
