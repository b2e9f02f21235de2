"""Answers in words, short enough for a model's context window: what matters most comes first.

Each kind of job has a function from its result, as JSON, to lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from solkit.core.quantities import duration
from solkit.report.evolution import search_view
from solkit.report.ranking import PlanView
from solkit.report.tuning import SearchView
from solkit.report.units import format_settings

MOST_CHARACTERS = 4000
_MOST_SHAPES = 6
_MOST_PLACES = 12
_MOST_KERNELS = 4
_MOST_FACTORS = 5
_TELLING = 1.05
_MOST_LINE = 400

Json = Mapping[str, Any]


def summarize_result(kind: str, result: Json) -> str:
    """Return a result in words, at most `MOST_CHARACTERS` of them.

    Args:
        kind: of `solkit.service.requests.KINDS`, or ``"profile"``.
        result: as the service answers.
    """
    lines = (
        line if len(line) <= _MOST_LINE else f"{line[:_MOST_LINE]}..."
        for line in _LINES[kind](result)
    )
    return shorten_text("\n".join(lines))


def shorten_text(text: str) -> str:
    """Leave the end of a long text out, and say so."""
    if len(text) <= MOST_CHARACTERS:
        return text
    end = f"\n... {len(text):,} characters in all; ask for the JSON of the job for the rest."
    return text[: MOST_CHARACTERS - len(end)] + end


def result_facts(kind: str, result: Json) -> dict[str, Any]:
    """Return the few numbers of a result that a program wants."""
    return _FACTS[kind](result)


# ------------------------------------------------------------------------------- bound and score


def _bound_lines(result: Json) -> Iterator[str]:
    device = result["device"]
    for row in result["results"][:_MOST_SHAPES]:
        bound, work = row["bound"], row["work"]
        yield (
            f"{format_settings(row['shape'])}: the speed of light on {device['name']} is "
            f"{_format_time(bound['time_ms'])}, limited by {bound['limiter']}; no correct kernel "
            f"takes less than {_format_time(bound['at']['hard'])}."
        )
        yield (
            f"  it must read {work['dram_read_bytes']:,} and write {work['dram_write_bytes']:,} "
            f"bytes of DRAM, and compute {work['flops']:,} operations."
        )
        yield f"  each resource alone: {_resource_times(bound['resources'])}"
        if row["fusion"] is not None and row["fusion"]["unfused_kernels"] > 1:
            fusion = row["fusion"]
            yield (
                f"  one kernel per op ({fusion['unfused_kernels']}) takes "
                f"{_format_time(fusion['unfused_ms'])} at the least."
            )
        if work["unmodelled"]:
            yield f"  not modelled, so counted as nothing: {', '.join(work['unmodelled'])}"
        yield from (f"  assumed: {line}" for line in bound["assumptions"][:3])
    yield from _remainder_line(result["results"], _MOST_SHAPES, "shapes")
    yield from _failure_lines(result)


def _resource_times(resources: Json) -> str:
    named = sorted(resources.items(), key=lambda item: -(item[1]["time_ms"] or 0.0))
    return ", ".join(f"{name} {_format_time(resource['time_ms'])}" for name, resource in named[:5])


def _score_lines(result: Json) -> Iterator[str]:
    yield f"{result['kernel']['name']} on {result['device']['name']}"
    for row in result["results"][:_MOST_SHAPES]:
        yield from _shape_lines(row)
    yield from _remainder_line(result["results"], _MOST_SHAPES, "shapes")
    yield from _failure_lines(result)


def _shape_lines(row: Json) -> Iterator[str]:
    bound, timed, score, gap = (row[name] for name in ("bound", "measurement", "score", "gap"))
    sol = f"speed of light {_format_time(bound['time_ms'])} ({bound['limiter']})"
    head = f"{format_settings({**row['shape'], **row['params']})}: {row['verdict']}"
    if timed is not None and score is not None:
        head += (
            f", {_format_time(timed['median_ms'])}, gap {score['gap']:.2f}, SOL score "
            f"{score['sol_score']:.2f}, reference {_format_time(timed['reference_ms'])}"
        )
    elif gap is not None and gap["time_ms"] is not None:
        how = "measured" if gap["measured"] else "modelled, not measured"
        head += f", {_format_time(gap['time_ms'])} ({how})"
    yield f"{head}; {sol}."
    yield from (f"  error: {line}" for line in row["errors"][:3])
    if gap is not None:
        yield from _factor_lines(gap["factors"])
    yield from (f"  advice: {line}" for line in row["advice"])
    for launch in row["launches"][:_MOST_KERNELS]:
        yield f"  launch: {_launch_line(launch)}"
    yield from _remainder_line(row["launches"], _MOST_KERNELS, "launches")
    yield from (f"  note: {line}" for line in row["analysis"]["notes"][:2])


def _factor_lines(factors: Sequence[Json]) -> Iterator[str]:
    telling = [factor for factor in factors if (factor["factor"] or 0) >= _TELLING]
    telling.sort(key=lambda factor: -factor["factor"])
    for factor in telling[:_MOST_FACTORS]:
        yield f"  gap: {factor['name']} costs {factor['factor']:.2f}x. {factor['evidence']}"


def _launch_line(launch: Json) -> str:
    facts = {
        "grid": launch.get("grid"),
        "warps": launch.get("num_warps"),
        "registers": launch.get("registers"),
        "shared bytes": launch.get("shared_bytes"),
        "spills": launch.get("spills"),
    }
    words = ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)
    return f"{launch.get('name')}: {words}"


def _failure_lines(result: Json) -> Iterator[str]:
    for failure in result.get("failed", [])[:3]:
        yield f"failed at {format_settings(failure['shape'])}: {failure['error']}"


# ----------------------------------------------------------------------------- rank and evaluate


def _rank_lines(result: Json) -> Iterator[str]:
    for plan in result["results"]:
        view = PlanView.from_json(plan)
        yield view.title
        yield from filter(None, (view.enough, *view.notes[:3], view.doubt))
        for row in view.candidates[:_MOST_PLACES]:
            interval = f" ({row.interval})" if row.interval else ""
            yield f"{row.place}. {row.action}: {row.name}: {row.time}{interval}. {row.reason}"
        yield from _remainder_line(view.candidates, _MOST_PLACES, "candidates")


def _evaluation_lines(result: Json) -> Iterator[str]:
    if result["best_ms"] is not None:
        yield f"The best of this search takes {_format_time(result['best_ms'])}."
    for at, row in enumerate((result.get("results") or [])[:_MOST_PLACES]):
        head = f"candidate {at}: {row['verdict']}, {row['stage']}, {row['combined_score']:.3f}"
        if row["time_ms"] is not None:
            head += f", {_format_time(row['time_ms'])}, gap {_format_number(row['gap'])}"
        elif row["forecast_ms"] is not None:
            head += f", forecast {_format_time(row['forecast_ms'])}"
        yield f"{head}; limited by {row['limiter'] or 'something unknown'}."
        yield from (f"  {line}" for line in row["reasons"][:4])
    for at, row in enumerate((result.get("rewards") or [])[:_MOST_PLACES]):
        yield f"candidate {at}: reward {row['value']:.3f}, {row['verdict']}"
        yield from (f"  {line}" for line in row["reasons"][:2])
    yield from _remainder_line(
        result.get("results") or result.get("rewards") or [], _MOST_PLACES, "others"
    )


def _comparison_lines(result: Json) -> Iterator[str]:
    for comparison in result["comparisons"]:
        ratio = comparison["ratio"]
        words = comparison["difference"].replace("_", " ")
        head = f"{comparison['candidate_path']} at {format_settings(comparison['shape'])}: {words}"
        if ratio is not None:
            head += (
                f"; its time is {ratio['value']:.3f} of the base's, {ratio['low']:.3f} to "
                f"{ratio['high']:.3f} with 95 %"
            )
        yield f"{head}."
        for role in ("base", "candidate"):
            rival = comparison[role]
            yield f"  {role}: {rival['verdict']}, {_format_time(rival['median_ms'])}"
            yield from (f"    {line}" for line in rival["errors"][:2])
        yield from (f"  evidence: {line}" for line in comparison["errors"][:3])
    yield from _failure_lines(result)


# -------------------------------------------------------------------------------------- searches


def _tuning_lines(result: Json) -> Iterator[str]:
    yield from _search_lines(SearchView.from_json(result), result)


def _evolution_lines(result: Json) -> Iterator[str]:
    yield from _search_lines(search_view(result), result)
    for variant in result["variants"]:
        if variant["id"] == result["best"]["id"] and variant["intent"]:
            yield f"  {variant['kind']}: {variant['intent']}"
    tried = sorted(result["variants"], key=lambda variant: variant["time_ms"] or float("inf"))
    for variant in tried[:_MOST_PLACES]:
        took = (
            _format_time(variant["time_ms"])
            if variant["time_ms"] is not None
            else variant["why"] or "untimed"
        )
        yield f"  {variant['id']} {variant['kind']}: {took}"


def _search_lines(view: SearchView, result: Json) -> Iterator[str]:
    yield from view.lines()
    yield f"  {view.effort}"
    if result["sol_ms"] is not None:
        yield f"  speed of light: {_format_time(result['sol_ms'])}"
    yield from (f"note: {line}" for line in view.notes[:4])


def _profile_lines(result: Json) -> Iterator[str]:
    span, busy, saving = (_format_time(result[f"{name}_ms"]) for name in ("span", "busy", "saving"))
    times = _format_number(result["speedup"])
    yield (
        f"{result['steps']} steps on {result['device']['name']} take {span}; its kernels run for "
        f"{busy}. Closing every gap saves {saving}: {times} times as fast."
    )
    for op in result["ops"][:_MOST_PLACES]:
        yield (
            f"{op['name']} ({', '.join(op['inputs'][:4])}), {op['calls']} calls: "
            f"{_format_time(op['time_ms'])}, gap {_format_number(op['gap'])}, limited by "
            f"{op['bound']['limiter']}; closing the gap saves {_format_time(op['saving_ms'])}"
        )
    yield from _remainder_line(result["ops"], _MOST_PLACES, "ops")
    yield from (f"note: {line}" for line in result["notes"][:4])
    if result["failure"]:
        yield f"failure: {result['failure']}"


# ----------------------------------------------------------------------------------------- facts


def _facts_of_shapes(result: Json) -> dict[str, Any]:
    return {
        "device": result["device"]["key"],
        "results": [_facts_of_shape(row) for row in result["results"][:_MOST_SHAPES]],
    }


def _facts_of_shape(row: Json) -> dict[str, Any]:
    bound, score = row["bound"], row.get("score")
    facts = {
        "shape": row["shape"],
        "sol_ms": bound["time_ms"],
        "hard_ms": bound["at"]["hard"],
        "limiter": bound["limiter"],
    }
    if "verdict" in row:
        timed, gap = row["measurement"], row["gap"]
        facts |= {
            "verdict": row["verdict"],
            "time_ms": None if timed is None else timed["median_ms"],
            "modelled_ms": None if gap is None or gap["measured"] else gap["time_ms"],
            "gap": None if score is None else score["gap"],
            "sol_score": None if score is None else score["sol_score"],
        }
    return facts


def _facts_of_rank(result: Json) -> dict[str, Any]:
    (plan,) = result["results"]
    names = ("file", "params", "action")
    return {
        "sol_ms": plan["sol_ms"],
        "enough": plan["enough"],
        "ranking": [
            {**{name: entry[name] for name in names}, "time_ms": entry["forecast"]["time_ms"]}
            for entry in plan["ranking"][:_MOST_PLACES]
        ],
    }


def _facts_of_evaluate(result: Json) -> dict[str, Any]:
    names = ("verdict", "stage", "combined_score", "time_ms", "gap", "sol_score", "forecast_ms")
    grades = (result.get("results") or [])[:50]
    rewards = (result.get("rewards") or [])[:50]
    return {
        "best_ms": result["best_ms"],
        "results": [{name: grade[name] for name in names} for grade in grades],
        "rewards": [reward["value"] for reward in rewards],
    }


def _facts_of_compare(result: Json) -> dict[str, Any]:
    names = ("shape", "difference", "ratio", "base_ms", "candidate_ms")
    return {
        "comparisons": [
            {name: comparison[name] for name in names} for comparison in result["comparisons"]
        ]
    }


def _facts_of_search(result: Json) -> dict[str, Any]:
    names = ("verdict", "speedup", "best", "sol_ms", "measured", "gpu_s", "stopped")
    return {name: result[name] for name in names}


def _facts_of_profile(result: Json) -> dict[str, Any]:
    names = ("name", "calls", "time_ms", "gap", "saving_ms")
    ops = [{name: op[name] for name in names} for op in result["ops"][:_MOST_PLACES]]
    return {"span_ms": result["span_ms"], "speedup": result["speedup"], "ops": ops}


_LINES: Mapping[str, Callable[[Json], Iterator[str]]] = {
    "bound": _bound_lines,
    "analyse": _score_lines,
    "score": _score_lines,
    "rank": _rank_lines,
    "evaluate": _evaluation_lines,
    "compare": _comparison_lines,
    "tune": _tuning_lines,
    "evolve": _evolution_lines,
    "profile": _profile_lines,
}

_FACTS: Mapping[str, Callable[[Json], dict[str, Any]]] = {
    "bound": _facts_of_shapes,
    "analyse": _facts_of_shapes,
    "score": _facts_of_shapes,
    "rank": _facts_of_rank,
    "evaluate": _facts_of_evaluate,
    "compare": _facts_of_compare,
    "tune": _facts_of_search,
    "evolve": _facts_of_search,
    "profile": _facts_of_profile,
}


def _remainder_line(every: Sequence[Any], most: int, what: str) -> Iterator[str]:
    if len(every) > most:
        yield f"... and {len(every) - most} more {what}"


def _format_time(time_ms: float | None) -> str:
    return "no time" if time_ms is None else duration(time_ms)


def _format_number(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
