"""Plans of `solkit rank`: as a table, and as JSON ``solkit.rank/1``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from solkit.core import Value
from solkit.report import units
from solkit.report.feature_words import words_of_feature
from solkit.report.tables import table_without_lines
from solkit.report.widgets import print_plainly
from solkit.surrogate.model import Contribution
from solkit.surrogate.plan import Action, Plan, Ranked

__all__ = ["SCHEMA", "dumps", "enough_words", "notes_of_plan", "render", "shown_candidates"]

SCHEMA = "solkit.rank/1"


def dumps(plans: Sequence[Plan]) -> str:
    """Return the plans as JSON, best first; factors and shares are fractions."""
    document = {"schema": SCHEMA, "results": [_plan_json(plan) for plan in plans]}
    return json.dumps(document, indent=2, allow_nan=False)


def _plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "shape": dict(plan.shape),
        "sol_ms": plan.sol_ms,
        "enough": plan.enough,
        "notes": list(plan.notes),
        "ranking": [_candidate_json(ranked) for ranked in plan.ranked],
    }


def _candidate_json(ranked: Ranked) -> dict[str, Any]:
    configuration, forecast = ranked.configuration, ranked.forecast
    return {
        "file": configuration.path,
        "entry_point": configuration.entry_point,
        "params": dict(configuration.params),
        "depth": ranked.depth.value,
        "action": ranked.action.value,
        "reason": ranked.reason,
        "forecast": {
            "time_ms": forecast.time_ms,
            "low_ms": forecast.low_ms,
            "high_ms": forecast.high_ms,
            "p_fail": forecast.p_fail,
            "abstains": forecast.abstains,
        },
        "costs": {"compile_s": ranked.compile_s, "gpu_s": ranked.gpu_s},
        "explanation": [_contribution_json(push) for push in ranked.pushes],
    }


def _contribution_json(push: Contribution) -> dict[str, Any]:
    return {
        "feature": push.feature,
        "words": words_of_feature(push.feature),
        "value": push.value,
        "time_factor": push.factor,
    }


def render(plans: Sequence[Plan], top: int, console: Console) -> None:
    """Print what to measure at each shape, in the order of the plan.

    Args:
        plans: of `solkit.surrogate.ranking.rank`.
        top: candidates to show: those that are measured, and others if there are fewer.
        console: where.
    """
    for plan in plans:
        several = len({ranked.configuration.path for ranked in plan.ranked}) > 1
        print_plainly(Group(*_ranking_page(plan, top, several)), console)


def _ranking_page(plan: Plan, top: int, several: bool) -> Iterator[RenderableType]:
    number = f"{len(plan.ranked):,} candidate{'s' * (len(plan.ranked) != 1)}"
    sol = f"speed of light {units.duration(plan.sol_ms)}"
    yield Text(f"{units.shape_words(plan.shape)}: {number}, {sol}", style="bold")
    table = table_without_lines([], ["", "forecast", "90 % interval"], ["parameters", "do", "why"])
    for place, ranked in shown_candidates(plan, top):
        name = f"{Path(ranked.configuration.path).name} " if several else ""
        forecast = ranked.forecast
        table.add_row(
            str(place),
            _format_time(forecast.time_ms) + (" ?" if forecast.abstains else ""),
            units.interval(forecast.low_ms, forecast.high_ms),
            Text(name + (_format_settings(ranked.configuration.params) or "its only parameters")),
            ranked.action.value,
            Text(ranked.reason),
        )
    yield table
    yield from (Text(note) for note in notes_of_plan(plan))
    yield Text()


def shown_candidates(plan: Plan, top: int) -> list[tuple[int, Ranked]]:
    """Return the candidates to show, with places: the measured ones, filled up with the first."""
    placed = list(enumerate(plan.ranked, 1))
    room = top - sum(ranked.action is not Action.SKIP for _, ranked in placed)
    skipped = [place for place, ranked in placed if ranked.action is Action.SKIP][: max(room, 0)]
    return [
        (place, ranked)
        for place, ranked in placed
        if ranked.action is not Action.SKIP or place in skipped
    ]


def notes_of_plan(plan: Plan) -> list[str]:
    """Return what there is to know of a plan besides its candidates, each a sentence."""
    sentences = list(plan.notes)
    if (said := enough_words(plan)) is not None:
        sentences.append(said)
    if plan.ranked and plan.ranked[0].pushes:
        pushes = [
            f"{words_of_feature(push.feature)} ×{push.factor:.2f}"
            for push in plan.ranked[0].pushes[:4]
        ]
        sentences.append(f"What moves the first forecast most: {', '.join(pushes)}.")
    if any(ranked.forecast.abstains for ranked in plan.ranked):
        sentences.append("? The surrogate does not trust itself: the time is the kernel model's.")
    return sentences


def enough_words(plan: Plan) -> str | None:
    """Return how many must be measured for a good one; ``None`` if unknown or all of them."""
    if plan.enough is None or plan.enough >= len(plan.ranked):
        return None
    good_one = "one within 2 % of the best with 90 %"
    if all(ranked.action is Action.MEASURE for ranked in plan.ranked[: plan.enough]):
        first = "first" if plan.enough == 1 else f"first {plan.enough}"
        return f"Measuring the {first} finds {good_one}."
    beside = sum(ranked.action is Action.MEASURE for ranked in plan.ranked[plan.enough :])
    return f"To find {good_one} takes a budget of {plan.enough + beside}."


def _format_settings(values: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _format_time(time_ms: float | None) -> str:
    return "unknown" if time_ms is None else units.duration(time_ms)
