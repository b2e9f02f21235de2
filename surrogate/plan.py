"""Plan for ranked candidates: measure these in this order, explore these few, skip those.

A plan is a suggestion for this round. Nothing is ruled out for good: what is skipped may be asked
about again, and a share of what is measured goes to candidates that the model doubts.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from solkit.core import Configuration, Depth, Forecast, Value
from solkit.surrogate.features import Array
from solkit.surrogate.model import Contribution

EXPLORED = 0.15
"""Share of a budget that goes to candidates that may be better than they are thought to be."""


_TWIN = 0.01
_UNKNOWN_MS = 1e300
"""Behind all known times, and far enough from the largest number to be multiplied."""


class Action(str, enum.Enum):
    """Action on a candidate in this round."""

    MEASURE = "measure"
    """Candidate that is among those expected to be fastest."""
    EXPLORE = "explore"
    """Candidate that may be faster than expected: measuring it also teaches the model most."""
    SKIP = "skip"
    """Candidate that is expected to be slower than those, or cannot run."""


@dataclass(frozen=True)
class Ranked:
    """A candidate's place in a plan.

    Attributes:
        configuration: the candidate.
        depth: how deeply it was analysed.
        forecast: its time.
        action: what to do with it.
        reason: why, a sentence.
        pushes: what made its forecast high or low; for the first few.
        compile_s: seconds that compiling it still takes, on a machine like those of the rows that
            the model learned from; ``None`` if unknown, or if it is compiled.
        gpu_s: seconds for which measuring it holds a GPU; ``None`` if unknown.
        is_whole: whether all its launches were seen: else its forecast leaves some out.
    """

    configuration: Configuration
    depth: Depth
    forecast: Forecast
    action: Action
    reason: str
    pushes: tuple[Contribution, ...] = ()
    compile_s: float | None = None
    gpu_s: float | None = None
    is_whole: bool = True


@dataclass(frozen=True)
class Plan:
    """Candidates for one shape, best first.

    Attributes:
        shape: every size.
        ranked: all candidates.
        sol_ms: the speed of light of the problem.
        enough: how many must be measured, in this order, so that with 90 % one within 2 % of the
            best is among them; ``None`` if the surrogate cannot say.
        notes: what limits this plan, each a sentence.
    """

    shape: Mapping[str, Value]
    ranked: tuple[Ranked, ...]
    sol_ms: float
    enough: int | None = None
    notes: tuple[str, ...] = ()

    def of(self, action: Action) -> tuple[Ranked, ...]:
        """Return the candidates with one action, best first."""
        return tuple(ranked for ranked in self.ranked if ranked.action is action)


def plan_actions(
    time_ms: Array,
    low_ms: Array,
    p_fail: Array,
    kept: Sequence[int],
    budget: int,
    enough: int | None = None,
) -> tuple[Array, list[tuple[Action, str]]]:
    """Order candidates and say what to do with each.

    Args:
        time_ms: forecasts, (candidates,); NaN if unknown.
        low_ms: lower ends of their intervals, (candidates,); NaN if unknown.
        p_fail: the chance that a candidate cannot run, (candidates,).
        kept: incumbents, which are always measured.
        budget: how many may be measured.
        enough: how many of the first suffice; what is left of the budget explores.

    Returns:
        The order, (candidates,), and the action and the reason of each in the original order.
    """
    number, fails = len(time_ms), np.asarray(p_fail, float) >= 1
    dearer = 1 / (1 - np.where(fails, 0.0, p_fail))  # as many tries until one runs
    score = np.where(np.isnan(time_ms), _UNKNOWN_MS, time_ms) * _twin_penalty(time_ms, low_ms)
    score = np.where(fails, np.inf, score * dearer)
    low_ms = low_ms * dearer
    order = np.argsort(score, kind="stable")
    able = [int(place) for place in order if not fails[place]]
    kept = [place for place in kept if not fails[place]]
    first = able[: _count_measured(able, kept, budget, enough)]
    undecided = [place for place in able if place not in first and place not in kept]
    explored = max(budget - len({*first, *kept}), 0)
    hope = np.where(np.isnan(low_ms), score, low_ms)
    hopeful = sorted(undecided, key=hope.__getitem__)[:explored]
    decisions = [(Action.SKIP, "")] * number
    best = float(np.nanmin(time_ms)) if not np.isnan(time_ms).all() else np.nan
    for place in undecided:
        decisions[place] = Action.SKIP, _reason_to_skip(time_ms[place], best, budget)
    for place in first:
        decisions[place] = Action.MEASURE, _reason_to_measure(time_ms[place], best)
    for place in hopeful:
        decisions[place] = Action.EXPLORE, _reason_to_explore(low_ms[place], best)
    for place in np.flatnonzero(fails):
        decisions[place] = Action.SKIP, "It cannot run on this GPU."
    for place in kept:
        decisions[place] = Action.MEASURE, "It is what you have: everything is compared with it."
    return order, decisions


def _count_measured(
    able: Sequence[int], kept: Sequence[int], budget: int, enough: int | None
) -> int:
    """Return how many of the first are measured because they are expected to be fastest.

    As many as are enough, if the budget allows that beside the incumbents; else a share of it is
    left to explore. Incumbents among the first take no place of their own.
    """

    def count_spent(number: int) -> int:
        return len({*able[:number], *kept})

    if enough is not None and count_spent(enough) <= budget:
        return enough
    most = budget - (round(EXPLORED * budget) if budget > 1 else 0)
    at_most = min(len(able), most)  # each of the first takes one place of the budget
    return max((number for number in range(at_most + 1) if count_spent(number) <= most), default=0)


def _twin_penalty(time_ms: Array, low_ms: Array) -> Array:
    """Return a factor that parts twins: candidates of one forecast, as no feature differs.

    Measuring one says most of what there is to know of all, so each next one counts as 1 % slower.
    """
    _, twin = np.unique(np.stack([time_ms, low_ms]), axis=1, return_inverse=True)
    order = np.argsort(twin.ravel(), kind="stable")
    first = np.r_[True, np.diff(twin.ravel()[order]) != 0]
    place = np.arange(len(order)) - np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    factors = np.empty(len(order))
    factors[order] = 1 + _TWIN * place
    return factors


def _reason_to_measure(time_ms: float, best_ms: float) -> str:
    if np.isnan(time_ms):
        return "Nothing is known of its time."
    if time_ms <= best_ms:
        return "No other forecast is lower."
    return f"Its forecast is {time_ms / best_ms - 1:.1%} above the lowest."


def _reason_to_skip(time_ms: float, best_ms: float, budget: int) -> str:
    if np.isnan(time_ms):
        return "Nothing is known of its time."
    if time_ms < 2 * best_ms:
        more = f"{time_ms / best_ms - 1:.1%} above the lowest"
    else:
        more = f"{time_ms / best_ms:.1f} times the lowest"
    return f"Its forecast is {more}, beyond a budget of {budget}."


def _reason_to_explore(low_ms: float, best_ms: float) -> str:
    if np.isnan(low_ms):
        return "It widens what is known."
    if low_ms >= best_ms:
        return "Of the others it is the likeliest to surprise."
    return f"It may be up to {1 - low_ms / best_ms:.0%} faster than the lowest forecast."
