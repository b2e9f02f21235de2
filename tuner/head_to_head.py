"""The final: the best configuration of a search against the one in use.

The best of many measured times is low partly by luck, so it proves nothing. The final is apart from
the search: none of the search's samples count, only those of the final do, and one challenger alone
takes part. So its interval needs no correction for how many were searched (data splitting: D. R.
Cox, "A Note on Data-Splitting for the Evaluation of Significance Levels", Biometrika 62, 1975). If
the challenger proves to be wrong, the next one takes its place: that is no second test of speed.

On a recording there are no fresh samples. Repeats that the search has not seen are used if there
are any, else the recorded times as they are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from solkit.core import Configuration, Difference, Outcome, Ratio
from solkit.core.tuning import Final
from solkit.measure.benches import Bench
from solkit.measure.timing.comparison_statistics import LIKENESS, TICK_MS, compute_ratio, difference
from solkit.tuner.tuning_problem import REPEAT, TuningProblem, identity_of

Judge = Callable[[Configuration, Configuration], Final]
"""Compares a challenger (the second) with the configuration in use (the first)."""

Pair = tuple[Configuration, Configuration]
JudgeAll = Callable[[Sequence[Pair]], list[Final]]
"""Compares several pairs: a bench prepares some while it times others."""

FINALISTS = 3
"""So many are tried at the most, each after the one before proved to be wrong."""

_ROUNDS = 5


def judge_best(task: TuningProblem, judge: Judge) -> Final | None:
    """Return the head-to-head of a task's best configuration; ``None`` if the default is the best.

    Args:
        task: its search is over.
        judge: compares two.
    """
    return judge_bests([task], lambda pairs: [judge(*pair) for pair in pairs])[0]


def judge_bests(tasks: Sequence[TuningProblem], judge: JudgeAll) -> list[Final | None]:
    """Return `judge_best` of several tasks, which are judged together.

    Args:
        tasks: their searches are over.
        judge: compares pairs.
    """
    results: list[Final | None] = [None] * len(tasks)
    rivals = [_faster_rivals(task) for task in tasks]
    for turn in range(FINALISTS):
        pending = [
            n
            for n, own_rivals in enumerate(rivals)
            if turn < len(own_rivals) and (not turn or _is_undecided(results[n]))
        ]
        if not pending:
            break
        judged = judge([(tasks[n].default, rivals[n][turn]) for n in pending])
        for n, outcome in zip(pending, judged, strict=True):
            results[n] = outcome
    return results


def _faster_rivals(task: TuningProblem) -> list[Configuration]:
    """Return what was faster than the one in use: the choice, then the others by time."""
    incumbent = task.incumbent
    if incumbent is None or incumbent.time_ms is None:
        return []
    faster = list(itertools.takewhile(lambda trial: trial is not incumbent, task.ranked()))
    choice = task.choice
    faster.sort(key=lambda trial: trial is not choice)
    return [trial.configuration for trial in faster[:FINALISTS]]


def _is_undecided(outcome: Final | None) -> bool:
    return outcome is not None and outcome.difference is Difference.NOT_COMPARED


@dataclass(frozen=True)
class _Pair:
    """Times of both in one round."""

    base: Outcome
    rival: Outcome

    def times(self) -> list[tuple[float, float]]:
        """Return one pair of times a turn; of the medians if samples are not recorded."""
        ours, theirs = self.base.samples_ms, self.rival.samples_ms
        if ours and len(ours) == len(theirs):
            return list(zip(ours, theirs, strict=True))
        assert self.base.time_ms is not None
        assert self.rival.time_ms is not None
        return [(self.base.time_ms, self.rival.time_ms)]


def head_to_head(
    bench: Bench,
    base: Configuration,
    rival: Configuration,
    rounds: int = _ROUNDS,
    how: str = "turns",
) -> Final:
    """Time two configurations in turns on a bench: see `heads_to_heads`.

    Args:
        bench: measures; nothing may be pending.
        base: the one in use.
        rival: the challenger.
        rounds: how often both are submitted together.
        how: `Final.how`.

    Raises:
        SolkitError: the bench failed.
    """
    return heads_to_heads(bench, [(base, rival)], rounds, how)[0]


def heads_to_heads(
    bench: Bench, pairs: Sequence[Pair], rounds: int = _ROUNDS, how: str = "turns"
) -> list[Final]:
    """Time each pair in turns on a bench, which prepares some pairs while it times others.

    The bench should be a new one, whose inputs are not those of the search.

    Args:
        bench: measures; nothing may be pending.
        pairs: the configuration in use, and its challenger.
        rounds: how often both of a pair are submitted together.
        how: `Final.how`.

    Raises:
        SolkitError: the bench failed.
    """
    places: dict[int, tuple[int, int, bool]] = {}
    submitted = []  # ids are unique as long as these live
    for which, pair in enumerate(pairs):
        for number in range(rounds):
            both = [replace(configuration, chosen_by=REPEAT) for configuration in pair]
            submitted.append(both)
            places.update(
                {
                    id(configuration): (which, number, configuration is both[1])
                    for configuration in both
                }
            )
            bench.submit(both)
    outcomes: list[dict[tuple[int, bool], Outcome]] = [{} for _ in pairs]
    for configuration, outcome in bench.outcomes():
        if id(configuration) in places:  # others are left from before the bench failed
            which, number, is_rival = places[id(configuration)]
            outcomes[which][number, is_rival] = outcome
    return [
        _decide_pair(own, rival, rounds, how)
        for own, (_, rival) in zip(outcomes, pairs, strict=True)
    ]


def _decide_pair(
    outcomes: Mapping[tuple[int, bool], Outcome], rival: Configuration, rounds: int, how: str
) -> Final:
    """Return what the outcomes of a pair say, by round and whether they are the challenger's."""
    wrong = [outcome for outcome in outcomes.values() if outcome.verdict.is_failure]
    if wrong:
        why = wrong[0].message or wrong[0].verdict.value
        return Final(rival.params, Difference.NOT_COMPARED, None, how, (why,))
    pairs = [
        _Pair(outcomes[n, False], outcomes[n, True]) for n in range(rounds) if (n, True) in outcomes
    ]
    return _judge_pairs(_distinct_pairs(pairs), rival, how)


def _distinct_pairs(pairs: list[_Pair]) -> list[_Pair]:
    """Return the distinct pairs that are timed: a recording starts again after its last repeat."""
    kept: dict[object, _Pair] = {}
    for pair in pairs:
        if pair.base.time_ms is not None and pair.rival.time_ms is not None:
            kept.setdefault((identity_of(pair.base), identity_of(pair.rival)), pair)
    return list(kept.values())


def _judge_pairs(pairs: list[_Pair], rival: Configuration, how: str) -> Final:
    if not pairs:
        why = "Neither could be timed."
        return Final(rival.params, Difference.NOT_COMPARED, None, how, (why,))
    times = [turn for pair in pairs for turn in pair.times()]
    is_exact = len(times) == 1 and not pairs[0].rival.samples_ms
    notes = ("Single recorded times count as exact.",) if is_exact else ()
    if is_exact:
        ratio = _exact_ratio(*times[0])
    else:
        method = pairs[0].rival.method
        method = method if method in TICK_MS else "cupti"
        base_ms, rival_ms = zip(*times, strict=True)
        ratio = compute_ratio(base_ms, rival_ms, method or "cupti")
    unstable = sorted({m for p in pairs for m in _instability_reasons(p)})
    if unstable:
        return Final(rival.params, Difference.UNSTABLE, ratio, how, (*unstable, *notes))
    return Final(rival.params, difference(ratio), ratio, how, notes)


def _exact_ratio(base_ms: float, rival_ms: float) -> Ratio:
    value, wide = rival_ms / base_ms, math.exp(LIKENESS)
    return Ratio(value, value / wide, value * wide, LIKENESS, 1)


def _instability_reasons(pair: _Pair) -> list[str]:
    return [
        outcome.message or outcome.verdict.value
        for outcome in (pair.base, pair.rival)
        if not outcome.verdict.is_right
    ]
