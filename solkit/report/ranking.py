"""Plans of `solkit rank`: as a table, and as JSON ``solkit.rank/1``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from solkit.core.codec import chosen_fields
from solkit.core.quantities import settings_text
from solkit.report import units
from solkit.report.feature_words import words_of_feature
from solkit.report.tables import table_without_lines
from solkit.report.widgets import print_plainly

if TYPE_CHECKING:
    from solkit.surrogate.plan import Plan, Ranked

SCHEMA = "solkit.rank/1"


def dumps(plans: Sequence[Plan]) -> str:
    """Return the plans as JSON, best first; factors and shares are fractions."""
    return json.dumps(as_json(plans), indent=2, allow_nan=False)


def as_json(plans: Sequence[Plan]) -> dict[str, Any]:
    """Return the plans as ``solkit.rank/1``."""
    results = [
        {
            **chosen_fields(plan, "shape", "sol_ms", "enough", "notes"),
            "ranking": [_candidate_json(ranked) for ranked in plan.ranked],
        }
        for plan in plans
    ]
    return {"schema": SCHEMA, "results": results}


def _candidate_json(ranked: Ranked) -> dict[str, Any]:
    configuration = ranked.configuration
    return {
        "file": configuration.path,
        **chosen_fields(configuration, "entry_point", "params"),
        **chosen_fields(ranked, "depth", "action", "reason"),
        "forecast": chosen_fields(
            ranked.forecast, "time_ms", "low_ms", "high_ms", "p_fail", "abstains"
        ),
        "costs": chosen_fields(ranked, "compile_s", "gpu_s"),
        "explanation": [
            {
                "feature": push.feature,
                "words": words_of_feature(push.feature),
                "value": push.value,
                "time_factor": push.factor,
            }
            for push in ranked.pushes
        ],
    }


# -------------------------------------------------------------------------------------------- view


@dataclass(frozen=True)
class CandidateView:
    """A candidate in words.

    Attributes:
        place: from 1.
        name: its parameters, after its file if the plan has several.
        time: its forecast, with a mark if that is not trusted.
        interval: of 90 %; empty if unknown.
        action, reason, depth: of the plan.
        is_skipped: whether it is not to be measured.
        entry: all of it, as JSON.
    """

    place: int
    name: str
    time: str
    interval: str
    action: str
    reason: str
    depth: str
    is_skipped: bool
    entry: Mapping[str, Any]


@dataclass(frozen=True)
class PlanView:
    """A plan in words, from its JSON: the same on terminal, page and in a summary.

    Attributes:
        title: shape, number of candidates, and speed of light.
        candidates: all of them, best first.
        notes: what limits the plan.
        enough: how many must be measured for a good one; empty if unknown or all of them.
        moved: what moves the first forecast most; empty if unknown.
        doubt: what the mark of a forecast means; empty if there is none.
    """

    title: str
    candidates: tuple[CandidateView, ...]
    notes: tuple[str, ...]
    enough: str
    moved: str
    doubt: str

    @classmethod
    def from_json(cls, plan: Mapping[str, Any]) -> PlanView:
        """Return the view of a result of ``solkit.rank/1``."""
        ranking = plan["ranking"]
        several = len({entry["file"] for entry in ranking}) > 1
        number = f"{len(ranking):,} candidate{'s' * (len(ranking) != 1)}"
        sol = f"speed of light {units.duration(plan['sol_ms'])}"
        pushes = ", ".join(
            f"{push['words']} ×{push['time_factor']:.2f}"
            for push in (ranking[0]["explanation"][:4] if ranking else ())
        )
        doubted = any(entry["forecast"]["abstains"] for entry in ranking)
        return cls(
            title=f"{units.shape_words(plan['shape'])}: {number}, {sol}",
            candidates=tuple(
                _candidate_view(place, entry, several) for place, entry in enumerate(ranking, 1)
            ),
            notes=tuple(plan["notes"]),
            enough=_enough_words(plan["enough"], [entry["action"] for entry in ranking]),
            moved=f"What moves the first forecast most: {pushes}." if pushes else "",
            doubt="? The surrogate does not trust itself: the time is the kernel model's."
            if doubted
            else "",
        )

    def shown(self, top: int) -> list[CandidateView]:
        """Return the candidates to measure, filled up to `top` with the first others."""
        room = max(top - sum(not candidate.is_skipped for candidate in self.candidates), 0)
        filling = [candidate for candidate in self.candidates if candidate.is_skipped][:room]
        return [c for c in self.candidates if not c.is_skipped or c in filling]


def _candidate_view(place: int, entry: Mapping[str, Any], several: bool) -> CandidateView:
    forecast = entry["forecast"]
    time_ms, file = forecast["time_ms"], f"{Path(entry['file']).name} " if several else ""
    params = settings_text(entry["params"])
    time = "unknown" if time_ms is None else units.duration(time_ms)
    return CandidateView(
        place=place,
        name=file + (params or "its only parameters"),
        time=time + (" ?" if forecast["abstains"] else ""),
        interval=units.interval(forecast["low_ms"], forecast["high_ms"]),
        action=entry["action"],
        reason=entry["reason"],
        depth=entry["depth"],
        is_skipped=entry["action"] == "skip",
        entry=entry,
    )


def _enough_words(enough: int | None, actions: Sequence[str]) -> str:
    if enough is None or enough >= len(actions):
        return ""
    good_one = "one within 2 % of the best with 90 %"
    if set(actions[:enough]) <= {"measure"}:
        first = "first" if enough == 1 else f"first {enough}"
        return f"Measuring the {first} finds {good_one}."
    return f"To find {good_one} takes a budget of {enough + actions[enough:].count('measure')}."


# -------------------------------------------------------------------------------------------- text


def render(plans: Sequence[Plan], top: int, console: Console) -> None:
    """Print what to measure at each shape, in the order of the plan.

    Args:
        plans: of `solkit.surrogate.ranking.rank`.
        top: candidates to show: those that are measured, and others if there are fewer.
        console: where.
    """
    for plan in as_json(plans)["results"]:
        print_plainly(Group(*_ranking_page(PlanView.from_json(plan), top)), console)


def _ranking_page(view: PlanView, top: int) -> Iterator[RenderableType]:
    yield Text(view.title, style="bold")
    table = table_without_lines([], ["", "forecast", "90 % interval"], ["parameters", "do", "why"])
    for candidate in view.shown(top):
        table.add_row(
            str(candidate.place),
            candidate.time,
            candidate.interval,
            Text(candidate.name),
            candidate.action,
            Text(candidate.reason),
        )
    yield table
    sentences = (*view.notes, view.enough, view.moved, view.doubt)
    yield from (Text(sentence) for sentence in sentences if sentence)
    yield Text()
