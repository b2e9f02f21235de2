"""Plans of `solkit rank`: as a table, and as JSON ``solkit.rank/1``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from solkit.core import Value
from solkit.surrogate.model import Push
from solkit.surrogate.plan import Plan, Ranked

__all__ = ["SCHEMA", "dumps", "render"]

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
    return {"feature": push.feature, "value": push.value, "time_factor": push.factor}


def render(plans: Sequence[Plan], top: int, console: Console) -> None:
    """Print a table for each shape.

    Args:
        plans: of `solkit.surrogate.ranking.rank`.
        top: candidates to show.
        console: where.
    """
    for plan in plans:
        several = len({each.configuration.path for each in plan.ranked}) > 1
        shape = _named(plan.shape)
        title = f"{shape or 'one shape'}: {len(plan.ranked):,} candidates, speed of light "
        table = Table(title=title + _time(plan.sol_ms), title_justify="left")
        table.add_column("", justify="right")
        table.add_column("forecast", justify="right")
        table.add_column("90 % interval", justify="right")
        table.add_column("parameters", overflow="fold")
        table.add_column("depth")
        table.add_column("do")
        for place, each in enumerate(plan.ranked[:top], 1):
            name = f"{Path(each.configuration.path).name} " if several else ""
            forecast = each.forecast
            interval = _interval(forecast.low_ms, forecast.high_ms)
            doubt = " ?" if forecast.abstains else ""
            table.add_row(
                str(place),
                _time(forecast.time_ms) + doubt,
                interval,
                name + _named(each.configuration.params),
                each.depth.value,
                each.action.value,
            )
        console.print(table)
        for note in _notes(plan):
            console.print(note, highlight=False)


def _notes(plan: Plan) -> list[str]:
    notes = list(plan.notes)
    if plan.enough is not None and plan.enough < len(plan.ranked):
        notes.append(
            f"Measuring the first {plan.enough} finds one within 2 % of the best with 90 %."
        )
    if plan.ranked and plan.ranked[0].pushes:
        told = [f"{push.feature} x{push.factor:.2f}" for push in plan.ranked[0].pushes[:4]]
        notes.append(f"What moves the first forecast most: {', '.join(told)}.")
    if any(each.forecast.abstains for each in plan.ranked):
        notes.append("? The surrogate does not trust itself: the time is the kernel model's.")
    return notes


def _named(values: Mapping[str, Value]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def _interval(low_ms: float | None, high_ms: float | None) -> str:
    return "" if low_ms is None or high_ms is None else f"{_time(low_ms)} to {_time(high_ms)}"


def _time(time_ms: float | None) -> str:
    if time_ms is None:
        return "unknown"
    return f"{time_ms:.3g} ms" if time_ms >= 0.1 else f"{1e3 * time_ms:.3g} µs"
