"""The driver of a bench for collections: decides what to try next.

It takes a handful of every kernel and shape (a *cell*) in turn. Then it takes more of the cells
that may hold the best of a problem with few known good configurations, or with good ones only from
the search; then of all cells that came near the best of their problem; then of the rest. So an
interrupted run has tried everything, and most where it matters. The first handful of a cell is
spread over its space; most of a later one is near the best so far, until enough good ones are
known. While the next kernels are still being surveyed, it takes more of the others.

A configuration that failed without being at fault (`not_measured`) is tried once more when a run
resumes or another one follows; after two such failures it counts as tried. If a handful of a cell
failed that way and nothing ever ran to its end, no more of it is tried: its reference may fail for
any configuration.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from solkit.collect.config_sampler import (
    NEAR_BEST,
    REPEAT,
    Chosen,
    ConfigSampler,
    is_sparsely_good,
    lacks_draws,
)
from solkit.collect.workloads import Workload
from solkit.core import Configuration, Outcome, Params, Verdict, canonical
from solkit.measure.benches import HANDFUL, Bench

_TRIES = 2  # without a measurement, each in another run or after a restart
_NEVER_RAN = (Verdict.NOT_MEASURED, Verdict.DOES_NOT_COMPILE, Verdict.TIMED_OUT)
NEAR_SHARE = 0.75  # of a later handful: finds more in bench/choosing.py than 0.5
_NEAR_SHARE_LATE = 0.25  # once enough good ones are known: the rest shows what is bad
_MAY_HOLD_BEST = 1.25  # the cell's best known time over its problem's
_CONTENDS = 2.0  # a kernel that is slower than the best of its problem by more comes last
_POLL_S = 0.02


@dataclass(frozen=True)
class Limits:
    """Limits at which a run stops.

    `gpu_s` are seconds for which the bench holds the GPU; the first cell may take as long to come.
    """

    gpu_s: float
    per_cell: int = 72  # configurations of one kernel at one shape, including earlier runs'
    repeats: float = 0.05  # share of the correct configurations of earlier runs to time again


@dataclass
class Progress:
    """Progress of a run."""

    rows: Counter[str] = field(default_factory=Counter)  # outcomes of this run, by verdict
    gpu_s: float = 0.0  # seconds for which the GPU was held
    now: str = ""  # the kernel that was timed last


class _Problem:
    """The times of a problem's correct configurations, of all its kernels."""

    def __init__(self) -> None:
        self._times_ms: dict[tuple[str, str], float] = {}
        self._drawn: set[tuple[str, str]] = set()
        self._known: _ProblemSummary | None = None  # of the times as they are

    @property
    def standing(self) -> _ProblemSummary:
        """The conclusion from the times."""
        if self._known is None:
            times_ms = list(self._times_ms.values())
            drawn_ms = [self._times_ms[name] for name in self._drawn]
            best_ms = min(times_ms, default=None)
            self._known = _ProblemSummary(
                best_ms, is_sparsely_good(times_ms), lacks_draws(times_ms, drawn_ms)
            )
        return self._known

    def note(self, outcome: Outcome) -> None:
        """Record an outcome."""
        if (time_ms := _good_time_ms(outcome)) is not None:
            name = outcome.kernel_id, canonical(outcome.params)
            self._times_ms[name] = min(time_ms, self._times_ms.get(name, time_ms))
            if outcome.chosen_by not in (NEAR_BEST, REPEAT):
                self._drawn.add(name)
            self._known = None


@dataclass(frozen=True)
class _ProblemSummary:
    """State of a problem, as far as is known."""

    best_ms: float | None  # the shortest time so far; ``None`` if nothing was correct
    is_sparse: bool  # whether few of its good configurations are known
    lacks_draws: bool  # whether the search alone found those that are known


@dataclass
class _WorkloadTrials:
    """A cell, and what was tried of it."""

    cell: Workload  # the kernel at a shape
    problem: _Problem  # the times of all its kernels
    chooser: ConfigSampler  # chooses the configurations that are new
    again: list[Params]  # those to repeat
    count: int = 0  # different configurations that were tried
    awaited: int = 0  # submitted configurations without an outcome
    has_run: bool = False  # whether any configuration ran to its end
    in_vain: set[str] = field(default_factory=set)  # configurations that could not be measured

    def has_due_work(self, most: int) -> bool:
        """Tell whether there is something to repeat, or something new and not yet `most`."""
        if not self.has_run and len(self.in_vain) >= HANDFUL:
            return False  # the next ones would fail too
        return bool(self.again) or (self.count < most and len(self.chooser) > 0)

    def note(self, outcome: Outcome) -> None:
        """Record an outcome."""
        self.has_run |= outcome.verdict not in _NEVER_RAN
        if outcome.verdict is Verdict.NOT_MEASURED:
            self.in_vain.add(canonical(outcome.params))
        self.chooser.note(outcome.params, _good_time_ms(outcome))
        self.problem.note(outcome)

    def next(self, most: int) -> list[Configuration]:
        """Return the next handful."""
        chosen = self._choose_next(most)
        self.awaited = len(chosen)
        return [replace(self.cell.default, params=p, chosen_by=how) for p, how in chosen]

    def _choose_next(self, most: int) -> list[Chosen]:
        if self.again:
            repeated = [(params, REPEAT) for params in self.again[:HANDFUL]]
            del self.again[:HANDFUL]
            return repeated
        size = min(HANDFUL, most - self.count, len(self.chooser))
        if size <= 0:
            return []
        near = self.chooser.near(round(self._near_share() * size))
        chosen = near + self.chooser.spread(size - len(near))
        self.count += len(chosen)
        return chosen

    def _near_share(self) -> float:
        """Return the share of the next handful that is near the best so far."""
        standing = self.problem.standing
        if not self.count:
            return 0.0
        if standing.is_sparse:
            return NEAR_SHARE
        return 0.0 if standing.lacks_draws else _NEAR_SHARE_LATE


def collect(
    cells: Iterator[Workload | None],
    bench: Bench,
    limits: Limits,
    earlier: Sequence[Outcome] = (),
    run_id: str = "",
    show: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """Measure configurations of cells on a bench until a limit is met.

    Args:
        cells: to choose from, as they become known; ``None`` while no further one is known yet.
        bench: measures and logs the chosen configurations.
        limits: when to stop.
        earlier: outcomes of this run and of others. Their configurations, on a GPU of this model,
            are not tried again, except for the repeated share of other runs', and once for those
            that could not be measured.
        run_id: of the earlier outcomes that are of this run.
        show: receives the progress after each outcome.

    Raises:
        SolkitError: the bench failed.
    """
    earlier = [row for row in earlier if row.device == bench.device.key] if earlier else ()
    history = _EarlierTrials(earlier, run_id, limits.repeats)
    return _Collector(cells, bench, history, limits, show).run()


class _EarlierTrials:
    """Results of earlier outcomes: times, and configurations to repeat."""

    def __init__(self, rows: Sequence[Outcome], run_id: str, share: float) -> None:
        self._rows: defaultdict[tuple[str, str], list[Outcome]] = defaultdict(list)
        self._problems: defaultdict[str, _Problem] = defaultdict(_Problem)
        in_vain: defaultdict[tuple[str, ...], set[tuple[str, int]]] = defaultdict(set)
        for row in rows:
            if row.verdict is Verdict.NOT_MEASURED:
                in_vain[row.key].add((row.run_id, row.sequence))  # two files may hold the same row
        for row in rows:
            if row.verdict is Verdict.NOT_MEASURED and len(in_vain[row.key]) < _TRIES:
                continue  # it is not at fault: it is tried again
            self._rows[row.kernel_id, row.problem_id].append(row)
            self._problems[row.problem_id].note(row)
        self._run_id, self._share = run_id, share

    def tried(self, cell: Workload) -> _WorkloadTrials:
        """Return a cell and what was tried of it."""
        rows = self._rows[cell.kernel_id, cell.problem_id]
        chooser = ConfigSampler(cell.space, cell.default.params, f"{cell.name} {cell.problem_id}")
        count = len({canonical(row.params) for row in rows})
        problem = self._problems[cell.problem_id]
        tried = _WorkloadTrials(cell, problem, chooser, self._params_to_repeat(cell, rows), count)
        for row in rows:
            tried.note(row)
        return tried

    def _params_to_repeat(self, cell: Workload, rows: Sequence[Outcome]) -> list[Params]:
        """Return random correct configurations of other runs that this run has not yet repeated.

        Whole handfuls are drawn: a single configuration would cost almost as much.
        """
        ours = {canonical(row.params) for row in rows if row.run_id == self._run_id}
        others = [r for r in rows if r.run_id != self._run_id and r.verdict.is_right]
        by_name = {canonical(row.params): row.params for row in others}
        chance = random.Random(f"{self._run_id} {cell.kernel_id} {cell.problem_id}")
        names = chance.sample(sorted(by_name), len(by_name))
        handfuls = [names[at : at + HANDFUL] for at in range(0, len(names), HANDFUL)]
        drawn = [name for handful in handfuls if chance.random() < self._share for name in handful]
        return [by_name[name] for name in drawn if name not in ours]


def _good_time_ms(outcome: Outcome) -> float | None:
    """Return the time of a configuration worth following up; ``None`` if it was not correct."""
    return outcome.time_ms if outcome.verdict.is_right else None


def _cell_key(configuration: Configuration) -> tuple[str, str]:
    """Return the key of a configuration's cell."""
    return configuration.path, canonical(configuration.shape)


class _Collector:
    """The loop itself."""

    def __init__(
        self,
        cells: Iterator[Workload | None],
        bench: Bench,
        history: _EarlierTrials,
        limits: Limits,
        show: Callable[[Progress], None],
    ) -> None:
        self._cells, self._bench, self._known = cells, bench, history
        self._limits, self._show = limits, show
        self._by_place: dict[tuple[str, str], _WorkloadTrials] = {}
        self._orders = self._choose_handfuls()
        self._is_surveying, self._is_over = True, False
        self._begun_s = bench.clock.now_s()
        self._progress = Progress()

    def run(self) -> Progress:
        """Run until a limit is met or nothing is left."""
        clock = self._bench.clock
        while (left_s := self._remaining_s()) > 0:
            self._fill_bench()
            if not self._bench.pending:
                if self._is_over:
                    break
                time.sleep(_POLL_S)  # kernels are being surveyed
                continue
            wait_s = min(_POLL_S, left_s) if self._is_surveying else left_s
            for configuration, outcome in self._bench.outcomes(clock.now_s() + wait_s):
                self._note_outcome(configuration, outcome)
                if self._remaining_s() > 0:
                    self._fill_bench()
        self._bench.discard()
        return self._progress

    def _remaining_s(self) -> float:
        """Return seconds left of the budget; until the GPU is held, wall time counts."""
        clock = self._bench.clock
        return self._limits.gpu_s - (clock.gpu_s() or clock.now_s() - self._begun_s)

    def _fill_bench(self) -> None:
        """Submit enough to keep the bench busy, as far as known."""
        while not self._is_over and self._bench.pending < self._bench.capacity:
            order = next(self._orders, ())
            if order is None:
                return
            self._is_over = not order
            if order:
                self._bench.submit(order)

    def _note_outcome(self, configuration: Configuration, outcome: Outcome) -> None:
        tried = self._by_place[_cell_key(configuration)]
        tried.awaited -= 1
        tried.note(replace(outcome, chosen_by=configuration.chosen_by))
        self._progress.rows[outcome.verdict.value] += 1
        self._progress.gpu_s = self._bench.clock.gpu_s()
        self._progress.now = tried.cell.name
        self._show(self._progress)

    def _choose_handfuls(self) -> Iterator[Sequence[Configuration] | None]:
        """Yield a handful of each cell, then more where it matters most; see this module.

        A cell's next handful is chosen when the times of the last one are known; ``None`` means to
        wait for such times or for kernels that are being surveyed.
        """
        cells: list[_WorkloadTrials] = []
        meanwhile = self._rounds_of_cells(cells, self._may_fill_gap)
        for cell in self._cells:
            if cell is not None:
                tried = self._known.tried(cell)
                cells.append(tried)
                self._by_place[_cell_key(cell.default)] = tried
                yield from self._serve_cell(tried, HANDFUL)
                continue
            order = next(meanwhile, ())
            yield order or None
            if order == ():
                meanwhile = self._rounds_of_cells(cells, self._may_fill_gap)
        self._is_surveying = False
        yield from self._rounds_of_cells(cells, self._may_fill_gap)
        yield from self._rounds_of_cells(cells, self._contends_for_best)
        yield from self._rounds_of_cells(cells, lambda _: True)

    def _rounds_of_cells(
        self, cells: Sequence[_WorkloadTrials], is_wanted: Callable[[_WorkloadTrials], bool]
    ) -> Iterator[Sequence[Configuration] | None]:
        """Yield a handful of each wanted cell, then another; late cells catch up first."""
        most, per_cell = HANDFUL, self._limits.per_cell
        while due := [cell for cell in cells if cell.has_due_work(per_cell) and is_wanted(cell)]:
            served = False
            for cell in filter(is_wanted, due):  # checked again at its turn
                for order in self._serve_cell(cell, most):
                    served = True
                    yield order
            if served:
                continue
            if 2 * sum(cell.awaited > 0 for cell in due) > len(due):
                yield None
            else:  # a few that take long to compile do not delay the others
                most += HANDFUL

    def _may_fill_gap(self, cell: _WorkloadTrials) -> bool:
        """Tell whether it may have good configurations that its problem lacks."""
        standing = cell.problem.standing
        is_lacking = standing.is_sparse or standing.lacks_draws
        return is_lacking and self._is_within_factor(_MAY_HOLD_BEST, cell)

    def _contends_for_best(self, cell: _WorkloadTrials) -> bool:
        """Tell whether it has come near the best of its problem, or may yet do so."""
        return self._is_within_factor(_CONTENDS, cell)

    def _is_within_factor(self, factor: float, cell: _WorkloadTrials) -> bool:
        own_ms, best_ms = cell.chooser.best_ms, cell.problem.standing.best_ms
        if own_ms is None or best_ms is None:
            return cell.awaited > 0
        return own_ms <= factor * best_ms

    def _serve_cell(self, cell: _WorkloadTrials, most: int) -> Iterator[Sequence[Configuration]]:
        """Yield the next handful of a cell, if one is due."""
        most = min(most, self._limits.per_cell)
        if not cell.awaited and cell.has_due_work(most) and (chosen := cell.next(most)):
            yield chosen
