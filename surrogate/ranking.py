"""Rank candidates before anything is measured: a cascade of captured, lowered and compiled ones.

Everything is captured. The promising are lowered, and the best of these compiled, if that is asked
for: a lowered analysis costs some 50 times a captured one, a compiled one some 5 times a lowered
one, and each tells more. CUDA C++ has nothing between: it is compiled where others are lowered, and
so many fewer of it go on. How many go on follows from belief: as many as must be measured to hold
one within 2 % of the best with 90 % (`Surrogate.number`), within the shares that cost allows. What
compiles fast goes on in larger numbers: the limit is the time of some typical compilations, if the
surrogate forecasts costs (`solkit.surrogate.costs`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from solkit.analysis.analyser import Analysed, Analyser
from solkit.analysis.pool import await_futures
from solkit.analysis.study import StudyPlan, files_of_problem
from solkit.core import (
    SOURCE_DEPTHS,
    Analysis,
    AnalysisStatus,
    Case,
    Configuration,
    Depth,
    Device,
    Forecast,
    KernelFile,
    Value,
    Verdict,
    canonical,
)
from solkit.core.values import finite_or_none
from solkit.datasets.facts import depth_reached
from solkit.datasets.kernels import Kernel, kernel_of_file
from solkit.errors import InputError, UnsupportedError
from solkit.roofline.cases import bound_of_case
from solkit.roofline.kernel.machines import unvalidated
from solkit.surrogate.candidate_forecasts import (
    entry_of_analysis,
    forecast_or_model,
    known_depths,
    problem_from,
)
from solkit.surrogate.costs import Costs
from solkit.surrogate.features import Array, Problem
from solkit.surrogate.model import Contribution, Surrogate
from solkit.surrogate.plan import Action, Plan, Ranked, plan_actions
from solkit.surrogate.resource_limits import P_OVERLOAD, explain_overloads
from solkit.surrogate.table import Entry, Table, table_of_entries
from solkit.surrogate.trees import Forecasts

Shape = Mapping[str, Value]

MOST_POINTS = 20_000
"""Points of one file's space that are captured; of more, a sample."""

_SHARES = {Depth.LOWERED: 1 / 3, Depth.COMPILED: 0.1}
"""Share of all candidates that go on to a depth at the most."""
_MOST = {Depth.LOWERED: 300, Depth.COMPILED: 40}
"""Candidates of typical length that may be analysed so deeply."""
_LEAST = {Depth.LOWERED: 24, Depth.COMPILED: 8}
"""Candidates that go on in any case: fewer would save no time worth having."""
_FASTEST = 4
"""Candidates may compile as many times as fast as is typical, as far as their number counts."""
_DEPTHS = (Depth.CAPTURED, Depth.LOWERED, Depth.COMPILED)
_ROUNDING = 1e-9


@dataclass(frozen=True)
class RankSettings:
    """Options of ranking.

    Attributes:
        depth: the deepest that a candidate may reach: ``"captured"``, ``"lowered"`` or
            ``"compiled"``.
        everything: whether all candidates reach it.
        incumbent: parameters that are in use now, which are always measured; the files' own by
            default.
        precision, protocol: of the bound: `solkit.roofline.bound.bound`.
        seed: of the sample of a space of more than `MOST_POINTS`.
        explained: how many of the first candidates come with what pushed their forecasts.
        patience_s: seconds for which deeper analyses are awaited, at each depth: what takes longer
            is given up, and keeps its forecast; ``None`` for as long as they take.

    Raises:
        InputError: there is no such depth.
    """

    depth: Depth | str = Depth.LOWERED
    everything: bool = False
    incumbent: Shape | None = None
    precision: str = "tolerance"
    protocol: str = "cold"
    seed: int = 0
    explained: int = 5
    patience_s: float | None = None

    def __post_init__(self) -> None:
        try:
            depth = SOURCE_DEPTHS[SOURCE_DEPTHS.index(Depth(self.depth))]
        except ValueError:
            valid = ", ".join(depth.value for depth in SOURCE_DEPTHS)
            raise InputError(f"depth {self.depth!r} is unknown: choose one of {valid}") from None
        object.__setattr__(self, "depth", depth)


@dataclass(frozen=True)
class Request:
    """Candidates and problem to rank.

    Attributes:
        files: kernel files; each with its whole space.
        reference: the file with the reference, if they lack one.
        shapes: sizes to override, a plan each; ``None`` for the first file's own shapes.
        points: parameters by file, instead of its space.
        budget: how many may be measured.
        settings: how.
        in_use: whether the files' own parameters are in use. A variant that was just written may
            have any, which deserve no more than others.
    """

    files: Sequence[str]
    reference: str | None = None
    shapes: Sequence[Shape] | None = None
    points: Mapping[str, Sequence[Shape]] | None = None
    budget: int = 10
    settings: RankSettings = RankSettings()
    in_use: bool = True


def rank(request: Request, analyser: Analyser, surrogate: Surrogate | None) -> list[Plan]:
    """Rank candidates at each shape.

    Args:
        request: what to rank.
        analyser: for the device.
        surrogate: forecasts; ``None`` ranks by the kernel model alone, and says so.

    Returns:
        A plan for each shape. The same request and surrogate give the same plans.

    Raises:
        InputError: a file, shape or parameter is invalid, or nothing can be captured.
    """
    return [pool.plan for pool in ranked_pools(request, analyser, surrogate)]


@dataclass(frozen=True)
class Pool:
    """A plan, and what it rests on.

    Attributes:
        plan: for one shape.
        entries: makes the candidates of `plan.ranked`, in its order, as the surrogate sees them;
            ``None`` for those that cannot run.
    """

    plan: Plan
    entries: Callable[[], list[Entry | None]]


def ranked_pools(request: Request, analyser: Analyser, surrogate: Surrogate | None) -> list[Pool]:
    """Rank as `rank` does, for those who go on asking."""
    if not request.files:
        raise InputError("expected at least one kernel file to rank; got none")
    described = [analyser.describe(path, request.reference) for path in request.files]
    if surrogate is not None:
        with contextlib.suppress(UnsupportedError):  # what forecasts says so
            surrogate.trees(Depth.CAPTURED)  # read while the workers load
    loaded = [future.result() for future in described]
    for path, file in zip(request.files, loaded, strict=True):
        if file.candidate is None:
            raise InputError(f"{path} holds no candidate to rank")
    shapes = loaded[0].problem.shapes if request.shapes is None else request.shapes

    def captured_at(shape: Shape) -> _Captured:
        return _captured_shape(request, analyser, loaded, shape)

    def plan_for(captured: Future[_Captured]) -> Pool:
        return _rank_shape(request, analyser, surrogate, loaded, captured.result())

    # workers capture the next shapes while this process plans for one; two that compile are
    # planned at once, so that no worker is idle while the other compiles what is in use
    deeper = Depth(request.settings.depth) is not Depth.CAPTURED
    ahead, planners = ThreadPoolExecutor(1, "capture"), ThreadPoolExecutor(1 + deeper, "plan")
    try:
        captured = [ahead.submit(captured_at, shape) for shape in shapes]
        plans = [planners.submit(plan_for, future) for future in captured]
        return [plan.result() for plan in plans]
    finally:  # what still runs ends with the analyser
        planners.shutdown(wait=False, cancel_futures=True)
        ahead.shutdown(wait=False, cancel_futures=True)


@dataclass
class _Candidate:
    """A candidate on its way through the cascade."""

    configuration: Configuration
    kernel: Kernel
    depth: Depth = Depth.CAPTURED
    analysis: Analysis | None = None
    error: str = ""
    overload: str = ""  # what it asks too much of, as far as its text tells
    is_own: bool = False  # the parameters that are in use
    own_params: Shape | None = None  # as they stand, if the configuration spells out more

    @property
    def fails(self) -> bool:
        """True if it cannot run on the device."""
        if self.analysis is None or self.analysis.failure == Verdict.CRASHED:
            return True
        return any(kernel.error is not None for kernel in self.analysis.kernels)

    @property
    def is_seen(self) -> bool:
        """True if a launch of it is seen: what launches nothing has no time to be forecast."""
        return self.analysis is not None and bool(self.analysis.kernels)

    @property
    def p_fail(self) -> float:
        """The chance that it cannot run; deeper facts know better than the text."""
        guessed = P_OVERLOAD if self.overload and self.depth is Depth.CAPTURED else 0.0
        return 1.0 if self.fails else guessed

    @property
    def known_depths(self) -> set[Depth]:
        """Depths to which its own launches are known."""
        return known_depths(self.analysis) if self.analysis else set()

    def reached(self, depth: Depth) -> Depth:
        """Return the depth that its analysis reaches."""
        return depth_reached(self.kernel.source.text, depth)


@dataclass(frozen=True)
class _Captured:
    """The problem at one shape, and its captured candidates."""

    case: Case
    candidates: Sequence[_Candidate]


def _captured_shape(
    request: Request, analyser: Analyser, loaded: Sequence[KernelFile], shape: Shape
) -> _Captured:
    first = StudyPlan(request.files[0], request.reference)
    case = analyser.problem(*files_of_problem(analyser, first, loaded[0]), shape).result()
    candidates = [
        candidate
        for path, file in zip(request.files, loaded, strict=True)
        for candidate in _candidates_of_file(request, analyser, path, file, shape)
    ]
    results = analyser.captured([candidate.configuration for candidate in candidates])
    for candidate, result in zip(candidates, results, strict=True):
        candidate.analysis, candidate.error = result.analysis, str(result.error or "")
    return _Captured(case, _drop_twins(candidates))


def _rank_shape(
    request: Request,
    analyser: Analyser,
    surrogate: Surrogate | None,
    loaded: Sequence[KernelFile],
    at_shape: _Captured,
) -> Pool:
    case, captured = at_shape.case, at_shape.candidates
    problem = problem_of(
        case, analyser.device, request.settings.precision, request.settings.protocol
    )
    if all(candidate.analysis is None for candidate in captured):
        raise InputError(f"nothing can be ranked: {captured[0].error}")
    cascade = _Cascade(request, analyser, surrogate, problem)
    plan = cascade.plan(captured, {**loaded[0].problem.sizes, **case.shape})
    if request.points is None:
        plan = replace(
            plan, notes=(*_notes_on_missing_space(request.files, loaded, captured), *plan.notes)
        )
    by_identity = {id(candidate.configuration): candidate for candidate in captured}

    def entries_of_plan() -> list[Entry | None]:
        ordered = [by_identity[id(ranked.configuration)] for ranked in plan.ranked]
        return [
            None if candidate.fails else cascade._entries_of([candidate])[0]
            for candidate in ordered
        ]

    return Pool(plan, entries_of_plan)


def problem_of(
    case: Case, device: Device, precision: str = "tolerance", protocol: str = "cold"
) -> Problem:
    """Return what the surrogate knows of a case's problem."""
    return problem_from(bound_of_case(case, device, precision, protocol), case.work, case.shape)


def _candidates_of_file(
    request: Request, analyser: Analyser, path: str, file: KernelFile, shape: Shape
) -> list[_Candidate]:
    candidate, kernel = file.candidate, kernel_of_file(file)
    assert candidate is not None
    own = dict(candidate.params)
    if request.points is not None:
        points: Iterable[Shape] = [{**own, **point} for point in request.points.get(path, ())]
    else:
        future = analyser.points(path, request.reference, shape, MOST_POINTS, request.settings.seed)
        points = future.result()
    kept = own if request.settings.incumbent is None else {**own, **request.settings.incumbent}
    distinct = {canonical(point): point for point in points}
    if request.points is None:
        distinct = {canonical(kept): kept, **distinct}
    return [
        _Candidate(
            Configuration(path, candidate.name, shape, point, request.reference, "search"),
            kernel,
            is_own=request.in_use and key == canonical(kept),
        )
        for key, point in distinct.items()
    ]


def _analyse_candidates(
    candidates: Sequence[_Candidate],
    analyser: Analyser,
    depth: Depth,
    patience_s: float | None = None,
) -> list[_Candidate]:
    """Return candidates analysed at a depth, in their order.

    What is compiled already is not compiled again; what cannot be on this machine stays as it is,
    and so does what takes too long.
    """
    by_identity = {
        id(candidate.configuration): candidate
        for candidate in candidates
        if candidate.known_depths != {Depth.COMPILED}
    }
    configurations = [candidate.configuration for candidate in by_identity.values()]
    for result in _results_in_time(configurations, analyser, depth, patience_s):
        candidate = by_identity[id(result.configuration)]
        candidate.analysis, candidate.error = result.analysis, str(result.error or "")
    for candidate in candidates:
        candidate.depth = Depth.CAPTURED if Depth.CAPTURED in candidate.known_depths else depth
    return list(candidates)


def _results_in_time(
    configurations: Sequence[Configuration],
    analyser: Analyser,
    depth: Depth,
    patience_s: float | None,
) -> Iterable[Analysed]:
    """Return the analyses that end in time, in any order; the others are given up."""
    if patience_s is None:
        return analyser.analysed(configurations, depth)
    futures = [analyser.submit(configuration, depth) for configuration in configurations]
    ended, late = await_futures(futures, patience_s)
    for future in late:
        future.cancel()
    return [future.result() for future in ended]


def _notes_on_missing_space(
    files: Sequence[str], loaded: Sequence[KernelFile], candidates: Sequence[_Candidate]
) -> Iterator[str]:
    """Yield files that leave nothing to choose, and how to add it."""
    for path, file in zip(files, loaded, strict=True):
        assert file.candidate is not None
        if sum(candidate.configuration.path == path for candidate in candidates) > 1:
            continue
        sizes = [
            (name, value)
            for name, value in file.candidate.params.items()
            if isinstance(value, int) and not isinstance(value, bool)
        ] or [("BLOCK", 1024), ("num_warps", 4)]
        example = ", ".join(
            f'"{name}": {sorted({max(n // 2, 1), n, 2 * n})}' for name, n in sizes[:2]
        )
        how = "" if file.candidate.params else ", and these keyword parameters to the kernel"
        yield (
            f"{Path(path).name} has no SPACE, so there is only one configuration to rank: add, "
            f"for example, SPACE = {{{example}}}{how}."
        )


def _drop_twins(candidates: list[_Candidate]) -> list[_Candidate]:
    """Keep one candidate for what is in use, though a point of the space spells the same out.

    A point does if it has these parameters, maybe more, and makes the same launches. A launch says
    all of a kernel only in Triton.
    """
    twins = set()
    for own in (candidate for candidate in candidates if candidate.is_own):
        same = next((other for other in candidates if _has_same_launches(other, own)), None)
        if same is not None:
            own.own_params = own.configuration.params
            own.configuration = same.configuration
            twins.add(id(same))
    return [candidate for candidate in candidates if id(candidate) not in twins]


def _has_same_launches(other: _Candidate, own: _Candidate) -> bool:
    if other is own or other.analysis is None or own.analysis is None:
        return False
    analyses = own.analysis, other.analysis
    mine, theirs = own.configuration, other.configuration
    if mine.path != theirs.path or not mine.params.items() <= theirs.params.items():
        return False
    launches = [[kernel.launch for kernel in analysis.kernels] for analysis in analyses]
    written = [launch for launch in launches[0] if not launch.library]
    return bool(written) and all(x.signature for x in written) and launches[0] == launches[1]


_Rows = dict[tuple[int, int], tuple[int, Analysis | None]]
"""Row of a table, and what was analysed, by the identities of a candidate and its analysis."""


@dataclass(frozen=True)
class _Cascade:
    """One problem's candidates, analysed as deeply as they deserve.

    Attributes:
        request: what is ranked.
        analyser: analyses candidates.
        surrogate: forecasts; ``None`` if there is none.
        problem: what they compute.
        tables: of candidates that were forecast, with their rows.
    """

    request: Request
    analyser: Analyser
    surrogate: Surrogate | None
    problem: Problem
    tables: list[tuple[_Rows, Table]] = field(default_factory=list)

    def plan(self, candidates: Sequence[_Candidate], shape: Shape) -> Plan:
        """Analyse, forecast, order."""
        forecasts, notes = self._forecast_all(candidates)
        stuck: dict[str, None] = {}
        for depth in _DEPTHS[1:]:
            if _DEPTHS.index(depth) > _DEPTHS.index(Depth(self.request.settings.depth)):
                break
            chosen, before = self._promote_to_depth(candidates, forecasts, depth), forecasts
            _analyse_candidates(chosen, self.analyser, depth, self.request.settings.patience_s)
            stuck |= dict.fromkeys(_notes_of_captured(chosen))
            forecasts, notes = self._forecast_all(candidates)
            forecasts = _level_forecasts(candidates, before, forecasts)
        enough = self._count_enough(candidates, forecasts)
        forecasts, notes = self._level_with_score(candidates, forecasts, notes)
        p_fail = np.array([candidate.p_fail for candidate in candidates])
        kept = [place for place, candidate in enumerate(candidates) if candidate.is_own]
        order, acts = plan_actions(
            forecasts.time_ms, forecasts.low_ms, p_fail, kept, self.request.budget, enough
        )
        pushes = self._explain_first(
            [candidates[place] for place in order[: self.request.settings.explained]]
        )
        costs = self._forecast_costs(candidates)
        ranked = tuple(
            replace(
                _ranked_candidate(candidates[place], forecasts, int(place), acts[place]),
                pushes=pushes.get(at, ()),
                compile_s=finite_or_none(float(costs.compile_s[place])),
                gpu_s=finite_or_none(float(costs.gpu_s[place])),
            )
            for at, place in enumerate(order)
        )
        if np.any(forecasts.abstains):
            share = np.mean(forecasts.abstains)
            notes += (f"The surrogate abstains on {share:.0%} of the candidates.",)
        return Plan(shape, ranked, self.problem.sol_ms, enough, (*notes, *stuck))

    def _level_with_score(
        self, candidates: Sequence[_Candidate], forecasts: Forecasts, notes: tuple[str, ...]
    ) -> tuple[Forecasts, tuple[str, ...]]:
        """Return forecasts on the level of what is in use, which `solkit score` compiles.

        So both name the same time for it. The order stays, as all change alike.
        """
        own = [candidate for candidate in candidates if candidate.is_own and not candidate.fails]
        if Depth(self.request.settings.depth) is not Depth.LOWERED or not own:
            return forecasts, notes
        _analyse_candidates(own, self.analyser, Depth.COMPILED)
        if any(candidate.fails or candidate.known_depths != {Depth.COMPILED} for candidate in own):
            return self._forecast_all(candidates)
        scored, notes = self._forecast_all(candidates)
        return _level_forecasts(candidates, forecasts, scored), notes

    def _table_of(self, candidates: Sequence[_Candidate]) -> Table:
        """Return the table of analysed candidates: a row is the same whatever the others are."""
        keys = [(id(candidate), id(candidate.analysis)) for candidate in candidates]
        for rows, table in self.tables:
            if all(key in rows for key in keys):
                return table[np.array([rows[key][0] for key in keys], int)]
        table = table_of_entries(self._entries_of(candidates))
        # what a key identifies is kept, or another could take its place
        kept = ((place, candidate.analysis) for place, candidate in enumerate(candidates))
        self.tables.append((dict(zip(keys, kept, strict=True)), table))
        return table

    def _entries_of(self, candidates: Sequence[_Candidate]) -> list[Entry]:
        entries = []
        for candidate in candidates:
            assert candidate.analysis is not None
            shape, params = candidate.configuration.shape, candidate.configuration.params
            if candidate.is_own and candidate.own_params is not None:
                params = candidate.own_params
            entries.append(
                entry_of_analysis(
                    self.problem,
                    self.analyser.device,
                    candidate.kernel,
                    shape,
                    params,
                    candidate.analysis,
                )
            )
        return entries

    def _forecast_all(self, candidates: Sequence[_Candidate]) -> tuple[Forecasts, tuple[str, ...]]:
        """Return forecasts of all, each at its own depth; NaN for those that fail or are unseen."""
        forecasts = Forecasts.from_times(np.full(len(candidates), np.nan))
        notes: dict[str, None] = {}
        for depth in _DEPTHS:
            places = np.array(
                [
                    at
                    for at, candidate in enumerate(candidates)
                    if candidate.depth is depth and not candidate.fails and candidate.is_seen
                ],
                int,
            )
            if not len(places):
                continue
            table = self._table_of([candidates[at] for at in places])
            if depth is Depth.CAPTURED:
                for at, why in zip(
                    places, explain_overloads(table, self.analyser.device), strict=True
                ):
                    candidates[at].overload = why
            part, why = forecast_or_model(table, depth, self._model_at_depth(depth))
            if why:
                notes[f"Ranked by the kernel model alone: {why}."] = None
            forecasts = forecasts.with_(places, part)
        return forecasts, tuple(notes)

    def _model_at_depth(self, depth: Depth) -> Surrogate | None:
        """Return what forecasts at a depth; ``None`` if there is none.

        The language regressor takes seconds to load. So it counts only at the deepest depth that is
        asked for.
        """
        if self.surrogate is None:
            return None
        is_last = depth is Depth(self.request.settings.depth)
        return self.surrogate if is_last else self.surrogate.without_language()

    def _forecast_costs(self, candidates: Sequence[_Candidate]) -> Costs:
        """Return what each candidate will cost, as its own depth tells; NaN for those that fail."""
        costs = Costs(*np.full((2, len(candidates)), np.nan))
        for depth in _DEPTHS if self.surrogate else ():
            places = [
                at
                for at, candidate in enumerate(candidates)
                if candidate.depth is depth and not candidate.fails
            ]
            if places and self.surrogate and self.surrogate.cost_model(depth).parts:
                part = self._costs_at_depth([candidates[at] for at in places], depth)
                costs.compile_s[places], costs.gpu_s[places] = part.compile_s, part.gpu_s
        return costs

    def _promote_to_depth(
        self, candidates: Sequence[_Candidate], forecasts: Forecasts, depth: Depth
    ) -> list[_Candidate]:
        """Return those that go on to a depth: all, or the promising; incumbents always.

        What asks too much may take minutes to compile, so it stays behind unless it is in use.
        """
        before = _DEPTHS[_DEPTHS.index(depth) - 1]
        here = [
            at
            for at, candidate in enumerate(candidates)
            if candidate.depth is before and not candidate.fails
        ]
        if not self.request.settings.everything:
            here = [at for at in here if not candidates[at].overload or candidates[at].is_own]
            times_ms = np.where(np.isnan(forecasts.time_ms), np.inf, forecasts.time_ms)
            here.sort(key=times_ms.__getitem__)
            ordered = [candidates[at] for at in here]
            most = self._count_affordable(ordered, before, _MOST[depth])
            if depth is Depth.LOWERED:  # large tiles take long to lower as well
                most = min(most, _count_within_limit(ordered, depth, _MOST))
            most = min(round(_SHARES[depth] * len(candidates)), most)
            needed = self._count_needed(forecasts, np.array(here, int), before)
            number = max(
                min(needed, most), _count_within_limit(ordered, depth, _LEAST), self.request.budget
            )
            kept = [at for at in here[number:] if candidates[at].is_own]
            here = here[:number] + kept
        return [candidates[at] for at in here]

    def _count_affordable(
        self, candidates: Sequence[_Candidate], depth: Depth, typical: int
    ) -> int:
        """Return how many of the first can be compiled in the time of some typical compilations."""
        part = self.surrogate and self.surrogate.cost_model(depth).parts.get("compile_s")
        if not part or not candidates:
            return typical
        spent_s = np.cumsum(self._costs_at_depth(candidates[: _FASTEST * typical], depth).compile_s)
        return int((spent_s <= typical * part.typical_s).sum())

    def _costs_at_depth(self, candidates: Sequence[_Candidate], depth: Depth) -> Costs:
        """Return what candidates that are known to a depth will cost, in their order."""
        assert self.surrogate is not None
        # all are of one problem and device: the order stays
        return self.surrogate.cost_model(depth).costs(self._table_of(candidates))

    def _count_needed(self, forecasts: Forecasts, places: Array, depth: Depth) -> int:
        usable = places[~np.isnan(forecasts.time_ms[places])]
        if self.surrogate is None or not len(usable) or np.isnan(forecasts.size[usable]).any():
            return len(places)
        model = self._model_at_depth(depth)
        assert model is not None
        return model.number(forecasts[usable], depth)

    def _count_enough(self, candidates: Sequence[_Candidate], forecasts: Forecasts) -> int | None:
        deepest = max((_DEPTHS.index(candidate.depth) for candidate in candidates), default=0)
        depth = _DEPTHS[deepest]
        places = np.array(
            [
                at
                for at, candidate in enumerate(candidates)
                if candidate.depth is depth and not candidate.fails
            ],
            int,
        )
        if self.surrogate is None or np.isnan(forecasts.size[places]).any() or not len(places):
            return None
        model = self._model_at_depth(depth)
        assert model is not None
        return model.number(forecasts[places], depth)

    def _explain_first(
        self, candidates: Sequence[_Candidate]
    ) -> dict[int, tuple[Contribution, ...]]:
        """Return what made the forecasts of the first candidates, by place."""
        if self.surrogate is None or unvalidated(self.analyser.device):
            return {}
        pushes: dict[int, tuple[Contribution, ...]] = {}
        for depth in self.surrogate.depths:
            places = [
                at
                for at, candidate in enumerate(candidates)
                if candidate.depth is depth and not candidate.fails and candidate.is_seen
            ]
            if places:
                table = self._table_of([candidates[at] for at in places])
                explained = self.surrogate.explain(table, depth)
                pushes |= zip(places, map(tuple, explained), strict=True)
        return pushes


def _notes_of_captured(candidates: Sequence[_Candidate]) -> list[str]:
    """Return why some could not be analysed more deeply on this machine."""
    stuck = [
        candidate.analysis
        for candidate in candidates
        if candidate.depth is Depth.CAPTURED and candidate.analysis
    ]
    return [note for analysis in stuck for note in analysis.notes]


def _count_within_limit(
    candidates: Sequence[_Candidate], depth: Depth, limits: Mapping[Depth, int]
) -> int:
    """Count the first within a limit, which each uses up by the depth that it reaches.

    Args:
        candidates: in their order.
        depth: that is asked for.
        limits: candidates by depth, if all reach that.
    """
    used = np.cumsum([1 / limits[candidate.reached(depth)] for candidate in candidates])
    return int((used < 1 + _ROUNDING).sum())


def _level_forecasts(
    candidates: Sequence[_Candidate], before: Forecasts, after: Forecasts
) -> Forecasts:
    """Forecast those that stayed behind on the level of those that went deeper.

    A shallower forecast is poorer, and off for all candidates alike: what deeper ones differ by
    from their own shallower ones, in the median, is taken to hold for all. Otherwise whatever errs
    low at the shallower depth would come first.
    """
    deepest = max(
        (_DEPTHS.index(candidate.depth) for candidate in candidates if not candidate.fails),
        default=0,
    )
    gone = np.array([_DEPTHS.index(candidate.depth) == deepest for candidate in candidates])
    ratio = after.time_ms[gone] / before.time_ms[gone]
    if gone.all() or np.isnan(ratio).all():
        return after
    factor = float(np.nanmedian(ratio))
    rest = np.flatnonzero(~gone)
    kept = before[rest]
    scaled = replace(
        kept,
        time_ms=factor * kept.time_ms,
        low_ms=factor * kept.low_ms,
        high_ms=factor * kept.high_ms,
    )
    return after.with_(rest, scaled)


def _ranked_candidate(
    candidate: _Candidate, forecasts: Forecasts, place: int, action: tuple[Action, str]
) -> Ranked:
    fails = candidate.fails
    time_ms, low_ms, high_ms = (
        finite_or_none(float(column[place]))
        for column in (forecasts.time_ms, forecasts.low_ms, forecasts.high_ms)
    )
    p_fail = candidate.p_fail
    forecast = Forecast(time_ms, low_ms, high_ms, p_fail, bool(forecasts.abstains[place]))
    reason = action[1]
    if 0 < p_fail < 1 and action[0] is Action.SKIP:
        reason = candidate.overload
    if fails:
        analysis = candidate.analysis or Analysis(AnalysisStatus.NO_KERNEL)
        own = next((kernel.error for kernel in analysis.kernels if kernel.error), "")
        why = candidate.error or own or next(iter(analysis.notes), "")
        reason = f"It cannot run: {why}" if why else reason
    is_whole = candidate.analysis is not None and candidate.analysis.is_whole
    return Ranked(
        candidate.configuration, candidate.depth, forecast, action[0], reason, is_whole=is_whole
    )
