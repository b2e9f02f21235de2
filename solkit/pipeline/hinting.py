"""A hint: a better configuration of a scored kernel that the surrogate expects, if it is sure.

A look, not a search: a sample of the space is captured, the promising few and the scored
configuration are lowered, and nothing is compiled or measured. It takes about a second. Where that
is not enough, the look is given up: capturing a language that generates its kernels (Helion) takes
seconds for each configuration. `solkit rank` looks at the whole space. ``SOLKIT_HINTS=0`` in the
environment looks nowhere.

The gain must exceed what forecasts of one kernel at one shape differ by when they are equal. Such
forecasts err alike; what is left is `Scatter.rest` of the expected error::

    sd        = sqrt(rest x (size_own^2 + size_other^2)), in log2
    hint if   log2(own / other) > sd x (the normal quantile of 1 - 0.1 / others)

so that among equals one hint in ten scores would be false (Bonferroni's correction).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING

from solkit import userdata
from solkit.analysis.analyser import Analyser
from solkit.core import Depth, Report, Result, Value, canonical
from solkit.core.codec import from_json, to_json
from solkit.datasets.facts import depth_reached
from solkit.datasets.kernels import kernel_of_file
from solkit.errors import SolkitError
from solkit.pipeline.shipped_surrogate import model_file
from solkit.pipeline.studying import problem_files

if TYPE_CHECKING:
    from solkit.surrogate.model import Surrogate
    from solkit.surrogate.plan import Plan, Ranked

LIMIT_S = 2.0
"""Looking takes this long at the most, but for a step that has begun, which gets `_STEP_S`."""

_OFF = "SOLKIT_HINTS"
_CAPTURED = 64
_LOWERED = 8
_STEP_S = 10.0
"""Limit for one candidate that hangs, and for all candidates of a look."""
_FALSE = 0.1


Params = Mapping[str, Value]


@dataclass(frozen=True)
class Hint:
    """A configuration that is expected to be faster than the scored one.

    Attributes:
        params: its parameters.
        speedup: forecast, over the scored configuration.
        least_speedup: what it would have to exceed to be worth telling.
        depth: of the forecasts.
    """

    params: Mapping[str, Value]
    speedup: float
    least_speedup: float
    depth: str


def hints_for_report(report: Report, took_s: float) -> dict[int, Hint]:
    """Return hints for the shapes of a report, by place; empty if there is nothing to say.

    Args:
        report: of a kernel file.
        took_s: seconds that the score took. A score that came from disk gets only hints that are
            known already: looking would take longer than the score.
    """
    candidate = report.kernel.candidate
    if os.environ.get(_OFF) == "0" or candidate is None or not candidate.space.values:
        return {}
    hints: dict[int, Hint] = {}
    look = _HintSearch(report, time.perf_counter() + LIMIT_S)
    with contextlib.suppress(SolkitError, OSError):  # a score stands without a hint
        identity = model_file()
        for place, result in enumerate(report.results):
            path = _hint_path(report, result, identity)
            hint, is_known = _read_hint(path)
            if not is_known and took_s > LIMIT_S and not result.verdict.is_failure:
                hint = look.at(result)
                _write_hint(path, hint)
            if hint is not None:
                hints[place] = hint
    return hints


class _LateError(SolkitError):
    """Looking took too long."""


@dataclass(frozen=True)
class _HintSearch:
    report: Report
    deadline: float

    def at(self, result: Result) -> Hint | None:
        """Return the hint for one shape.

        Raises:
            SolkitError: there was too little time, or no model.
        """
        self._check_time(LIMIT_S / 2)
        if (
            depth_reached(kernel_of_file(self.report.kernel).source.text, Depth.LOWERED)
            is Depth.COMPILED
        ):
            raise _LateError("compiling CUDA C++ takes too long for a hint")
        from solkit.surrogate.model import Surrogate  # only where a hint can be given
        from solkit.surrogate.ranking import RankSettings, Request, rank

        model = Surrogate.load().without_language()  # to load a language model takes too long
        path, reference = problem_files(self.report.kernel, None)
        own = dict(result.params)
        with (
            Analyser(self.report.device, limit_s=_STEP_S, run_limit_s=_STEP_S / 2) as analyser,
            _given_up_late(analyser, _STEP_S),
        ):

            def plan_at_depth(depth: Depth, candidates: Sequence[Params]) -> Plan:
                settings = RankSettings(depth, everything=True, incumbent=own, explained=0)
                points = {path: [own, *candidates]}
                request = Request(
                    [path], reference, [result.shape], points, settings=settings, in_use=False
                )
                return rank(request, analyser, model)[0]

            points = analyser.points(path, reference, result.shape, _CAPTURED).result()
            first = _other_candidates(plan_at_depth(Depth.CAPTURED, points), own)
            self._check_time(LIMIT_S / 2)
            chosen = [ranked.configuration.params for ranked in first[:_LOWERED]]
            return surely_better(plan_at_depth(Depth.LOWERED, chosen), own, model)

    def _check_time(self, needed_s: float) -> None:
        if time.perf_counter() > self.deadline - needed_s:
            raise _LateError("no time is left to look for better configurations")


@contextlib.contextmanager
def _given_up_late(analyser: Analyser, limit_s: float) -> Iterator[None]:
    """Cancel after some seconds what an analyser was asked for.

    Raises:
        SolkitError: someone waited for that.
    """
    timer = threading.Timer(limit_s, analyser.give_up_rankings)
    timer.daemon = True
    timer.start()
    try:
        yield
    except CancelledError as error:
        raise _LateError(f"looking for better configurations took over {limit_s:g} s") from error
    finally:
        timer.cancel()


def _other_candidates(plan: Plan, own: Params) -> list[Ranked]:
    """Return a plan's candidates, best first, without one of them."""
    kept = canonical(own)
    return [ranked for ranked in plan.ranked if canonical(ranked.configuration.params) != kept]


def surely_better(plan: Plan, own: Params, model: Surrogate) -> Hint | None:
    """Return a plan's fastest candidate, if its forecast is surely below a configuration's.

    Args:
        plan: with forecasts of both, at one depth.
        own: the configuration's parameters.
        model: that made the forecasts.
    """
    mine = [
        ranked
        for ranked in plan.ranked
        if canonical(ranked.configuration.params) == canonical(own) and _is_trusted(ranked)
    ]
    others = [ranked for ranked in _other_candidates(plan, own) if _is_trusted(ranked)]
    if not mine or not others:
        return None
    best = min(others, key=lambda ranked: ranked.forecast.time_ms or math.inf)
    assert mine[0].forecast.time_ms is not None
    assert best.forecast.time_ms is not None
    trees = model.trees(best.depth)
    width = trees.calibration.interval.high - trees.calibration.interval.low
    sizes = [_log2_width(ranked) / width for ranked in (mine[0], best)]
    sd = math.sqrt(trees.calibration.scatter.rest) * math.hypot(*sizes)
    least = 2.0 ** (sd * NormalDist().inv_cdf(1 - _FALSE / len(others)))
    speedup = mine[0].forecast.time_ms / best.forecast.time_ms
    if speedup <= least:
        return None
    return Hint(dict(best.configuration.params), speedup, least, best.depth.value)


def _is_trusted(ranked: Ranked) -> bool:
    forecast = ranked.forecast
    return (
        None not in (forecast.time_ms, forecast.low_ms, forecast.high_ms) and not forecast.abstains
    )


def _log2_width(ranked: Ranked) -> float:
    low, high = ranked.forecast.low_ms, ranked.forecast.high_ms
    assert low is not None
    assert high is not None
    return math.log2(high / low)


# ------------------------------------------------------------------------------------- on disk


def _hint_path(report: Report, result: Result, identity: str) -> Path:
    """Return the file of a hint: all that it rests on makes its name."""
    files = [path for path in problem_files(report.kernel, None) if path is not None]
    content = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in files]
    versions = sorted((name, str(value)) for name, value in report.environment.items())
    request = canonical(dict(result.shape)), canonical(dict(result.params)), report.device.key
    name = hashlib.sha256(repr((content, versions, request, identity)).encode()).hexdigest()
    return userdata.cache_folder("hints") / f"{name[:32]}.json"


def _read_hint(path: Path) -> tuple[Hint | None, bool]:
    """Return a hint from before, and whether anything was found out."""
    try:
        stored = json.loads(path.read_text("utf-8"))
        return (from_json(Hint, stored) if stored else None), True
    except (OSError, ValueError):
        return None, False


def _write_hint(path: Path, hint: Hint | None) -> None:
    with contextlib.suppress(OSError):
        userdata.write_atomically(path, json.dumps(to_json(hint) if hint else None).encode())
