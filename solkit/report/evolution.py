"""Result of `solkit evolve`: as a page, and as JSON ``solkit.evolve/1``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.tree import Tree

from solkit.core import Bred, Evolved, EvolveStatus, Finalist, Gate, TimedParams, TuneVerdict
from solkit.core.codec import chosen_fields, json_value
from solkit.core.quantities import duration
from solkit.report.tuning import (
    SearchView,
    effort_words,
    final_json,
    progress_words,
    speedup_json,
    speedup_words,
    timed_words,
    title_words,
)

SCHEMA = "solkit.evolve/1"
_MOST_SHOWN = 20  # variants in the tree on a terminal; the JSON and the HTML page have all


def dumps(evolved: Evolved) -> str:
    """Return the result as JSON; times in ms and s, shares as fractions."""
    return json.dumps(as_json(evolved), indent=2, allow_nan=False)


def as_json(evolved: Evolved) -> dict[str, Any]:
    """Return the result as ``solkit.evolve/1``."""
    return {
        "schema": SCHEMA,
        **chosen_fields(evolved, "kernel", "problem_id", "shape", "device", "sol_ms"),
        "original": _timed_json(evolved.original),
        "best": {"id": evolved.best, **_timed_json(evolved.best_params)},
        "verdict": evolved.verdict.value,
        "speedup": None if evolved.gate is None else speedup_json(evolved.gate.final),
        "gate": _gate_json(evolved.gate),
        "finalists": [_finalist_json(finalist) for finalist in evolved.finalists],
        "variants": [_variant_json(variant) for variant in evolved.variants],
        **chosen_fields(evolved, "rounds", "measured", "failed", "gpu_s", "stopped"),
        "better_chance": evolved.better_chance,
        **chosen_fields(evolved, "trajectory", "cost", "log", "out", "notes"),
        "versions": dict(evolved.environment),
    }


def _timed_json(timed: TimedParams) -> dict[str, Any]:
    return chosen_fields(timed, "params", "time_ms", "message")


def _gate_json(gate: Gate | None) -> dict[str, Any] | None:
    if gate is None:
        return None
    return {
        **chosen_fields(gate, "passed", "single_shape", "why"),
        "final": final_json(gate.final),
        "held_out": [
            {
                **chosen_fields(held, "shape", "passed", "difference"),
                "ratio": None if held.ratio is None else held.ratio.value,
                "why": held.why,
            }
            for held in gate.held_out
        ],
    }


def _finalist_json(finalist: Finalist) -> dict[str, Any]:
    return {
        **chosen_fields(finalist, "id", "params", "time_ms", "taken"),
        "practice": json_value(finalist.practised, complete=True),
    }


def _variant_json(bred: Bred) -> dict[str, Any]:
    variant = bred.variant
    return {
        **chosen_fields(variant, "id", "parent", "kind", "intent", "proposer", "checked"),
        **chosen_fields(bred, "verdict", "params", "time_ms", "gap", "forecast_ms"),
        **chosen_fields(bred, "measured", "behaviour"),
        "why": bred.why or variant.why,
        "source": variant.source,
    }


# -------------------------------------------------------------------------------------------- text


def search_view(evolved: Mapping[str, Any]) -> SearchView:
    """Return a ``solkit.evolve/1`` in words."""
    gate, best, sol_ms = evolved["gate"], evolved["best"], evolved["sol_ms"]
    if gate is None:
        answer = "Keep what you have: nothing was faster."
    elif gate["passed"]:
        answer = f"Use the best: {speedup_words(evolved['speedup'])}. {gate['why']}"
    else:
        answer = f"Keep what you have. The best did not pass the gate: {gate['why']}"
    proposed = f"{len(evolved['variants']) - 1} variants in {evolved['rounds']} rounds"
    return SearchView(
        title=title_words(evolved),
        in_use=timed_words(evolved["original"], sol_ms),
        best=timed_words(best, sol_ms) if evolved["verdict"] == TuneVerdict.FASTER.value else "",
        answer=answer,
        effort=f"{proposed}; {evolved['measured']} measured {effort_words(evolved)}",
        notes=tuple(evolved["notes"]),
    )


def render(evolved: Evolved, console: Console) -> None:
    """Print the result."""
    view = search_view(as_json(evolved))
    for line in view.lines():
        console.print(line)
    console.print(_lineage_tree(evolved))
    console.print(f"  {view.effort}")
    if evolved.cost:
        console.print(f"  The model cost {evolved.cost:.4f}.")
    for note in view.notes:
        console.print(f"  {note}")
    if evolved.out is not None:
        console.print(f"  Written: {evolved.out}")


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
    proposed = f"{status.proposed} proposed" if status.proposed else ""
    return progress_words(status, proposed, f" ({status.best_kind})")
