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
from solkit.report.feature_words import words
from solkit.report.parts import print_plainly
from solkit.report.tables import columns
from solkit.surrogate.model import Push
from solkit.surrogate.plan import Action, Plan, Ranked

__all__ = ["SCHEMA", "dumps", "enough_words", "notes", "render", "shown"]

SCHEMA = "solkit.rank/1"


def dumps(plans: Sequence[Plan]) -> str:
    """The plans as JSON, best first; factors and shares are fractions."""
    told = {"schema": SCHEMA, "results": [_result(plan) for plan in plans]}
    return json.dumps(told, indent=2, allow_nan=False)


def _result(plan: Plan) -> dict[str, Any]:
    return {
        "shape": dict(plan.shape),
        "sol_ms": plan.sol_ms,
        "enough": plan.enough,
        "notes": list(plan.notes),
        "ranking": [_ranked(each) for each in plan.ranked],
    }


def _ranked(each: Ranked) -> dict[str, Any]:
    told, forecast = each.configuration, each.forecast
    return {
        "file": told.path,
        "entry_point": told.entry_point,
        "params": dict(told.params),
        "depth": each.depth.value,
        "action": each.action.value,
        "reason": each.reason,
        "forecast": {
            "time_ms": forecast.time_ms,
            "low_ms": forecast.low_ms,
            "high_ms": forecast.high_ms,
            "p_fail": forecast.p_fail,
            "abstains": forecast.abstains,
        },
        "costs": {"compile_s": each.compile_s, "gpu_s": each.gpu_s},
        "explanation": [_push(push) for push in each.pushes],
    }


def _push(push: Push) -> dict[str, Any]:
    return {
        "feature": push.feature,
        "words": words(push.feature),
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
        several = len({each.configuration.path for each in plan.ranked}) > 1
        print_plainly(Group(*_page(plan, top, several)), console)


def _page(plan: Plan, top: int, several: bool) -> Iterator[RenderableType]:
    number = f"{len(plan.ranked):,} candidate{'s' * (len(plan.ranked) != 1)}"
    sol = f"speed of light {units.duration(plan.sol_ms)}"
    yield Text(f"{units.shape_words(plan.shape)}: {number}, {sol}", style="bold")
    table = columns([], ["", "forecast", "90 % interval"], ["parameters", "do", "why"])
    for place, each in shown(plan, top):
        name = f"{Path(each.configuration.path).name} " if several else ""
        forecast = each.forecast
        table.add_row(
            str(place),
            _time(forecast.time_ms) + (" ?" if forecast.abstains else ""),
            units.interval(forecast.low_ms, forecast.high_ms),
            Text(name + (_named(each.configuration.params) or "its only parameters")),
            each.action.value,
            Text(each.reason),
        )
    yield table
    yield from (Text(note) for note in notes(plan))
    yield Text()


def shown(plan: Plan, top: int) -> list[tuple[int, Ranked]]:
    """The candidates to show, each with its place: what is measured, filled up with the first."""
    placed = list(enumerate(plan.ranked, 1))
    room = top - sum(each.action is not Action.SKIP for _, each in placed)
    skipped = [place for place, each in placed if each.action is Action.SKIP][: max(room, 0)]
    return [
        (place, each)
        for place, each in placed
        if each.action is not Action.SKIP or place in skipped
    ]


def notes(plan: Plan) -> list[str]:
    """What there is to know of a plan besides its candidates, each a sentence."""
    told = list(plan.notes)
    if (said := enough_words(plan)) is not None:
        told.append(said)
    if plan.ranked and plan.ranked[0].pushes:
        pushes = [f"{words(each.feature)} ×{each.factor:.2f}" for each in plan.ranked[0].pushes[:4]]
        told.append(f"What moves the first forecast most: {', '.join(pushes)}.")
    if any(each.forecast.abstains for each in plan.ranked):
        told.append("? The surrogate does not trust itself: the time is the kernel model's.")
    return told


def enough_words(plan: Plan) -> str | None:
    """How many must be measured for a good one; ``None`` if that is unknown or all of them."""
    if plan.enough is None or plan.enough >= len(plan.ranked):
        return None
    found = "one within 2 % of the best with 90 %"
    if all(each.action is Action.MEASURE for each in plan.ranked[: plan.enough]):
        first = "first" if plan.enough == 1 else f"first {plan.enough}"
        return f"Measuring the {first} finds {found}."
    beside = sum(each.action is Action.MEASURE for each in plan.ranked[plan.enough :])
    return f"To find {found} takes a budget of {plan.enough + beside}."


def _named(values: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _time(time_ms: float | None) -> str:
    return "unknown" if time_ms is None else units.duration(time_ms)
