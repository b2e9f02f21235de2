"""The loop: choose, compile ahead, time, write; until the time is spent or nothing is left.

A handful is taken of every kernel and shape in turn (a *cell*); then more of those that may hold
the best of a problem of which few good configurations are known yet, or none but by the search;
then of all that came near the best of their problem, then of the rest: so that a run that is cut
has looked at all, and most where it counts. The first handful of a cell is spread over its space;
of later ones most are near the best so far, until enough good ones are known. Some handfuls are
compiled ahead, in order, on all other cores; while the kernels that are next are still being
surveyed, more is taken of those that were.

What failed for no fault of its own (`not_measured`) is tried again when a run goes on or another
comes after, once: what fails so twice counts as tried. Of a cell of which a handful failed so and
nothing ever ran to its end, no more is tried: its reference may fail whatever the configuration.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from solkit.collect import toolchain
from solkit.collect.ahead import Ahead, Compiled
from solkit.collect.bench import SEED, Environment, Handful, Tried
from solkit.collect.choice import (
    NEAR_BEST,
    REPEAT,
    Chooser,
    Chosen,
    Params,
    is_sparse,
    lacks_draws,
)
from solkit.collect.rows import timed_launch, with_demands
from solkit.collect.sources import Kernel
from solkit.collect.timing_process import LostError, TimingProcess
from solkit.core import Device, Verdict
from solkit.datasets.record import TimedConfiguration, TimedLaunch, canonical
from solkit.datasets.runlog import RunLog
from solkit.errors import UnsupportedError, WorkerError
from solkit.measure.lock import exclusive
from solkit.measure.protocols import find

__all__ = ["Limits", "Progress", "collect"]

HANDFUL = 8
_TRIES = 2  # in vain, each of another start
_NEVER_RAN = (Verdict.NOT_MEASURED, Verdict.DOES_NOT_COMPILE, Verdict.TIMED_OUT)
NEAR_SHARE = 0.75  # of a later handful: finds more in bench/choosing.py than 0.5
_NEAR_SHARE_LATE = 0.25  # once enough good ones are known: the best is sought, what is bad is told
_MAY_HOLD_BEST = 1.25  # times as slow as the best of its problem, as far as is known
_CONTENDS = 2.0  # a kernel this many times slower than the best of its problem comes last
_PATIENCE_S = 600.0
_POLL_S = 0.02
_END = object()
_SURVEYED = 32  # kernels, ahead of the one that is wanted next
_AHEAD = 3  # handfuls that are compiled, or waiting for it, for each worker


@dataclass(frozen=True)
class Limits:
    """When to stop.

    Attributes:
        seconds: of timing, from the first handful on, which is waited for as long at most; what
            still compiles then is given up.
        per_cell: configurations of one kernel at one shape, those of earlier runs among them.
        repeats: the share of earlier runs' right configurations that is timed again.
        workers: processes that compile; 0 for all cores but one.
    """

    seconds: float
    per_cell: int = 72
    repeats: float = 0.05
    workers: int = 0


@dataclass
class Progress:
    """How far a run is.

    Attributes:
        rows: written in this run, by verdict.
        seconds: since the first handful.
        waited_s: of these, how long the GPU had nothing to do, as what was next was still being
            chosen or compiled.
        now: the kernel that was timed last.
    """

    rows: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    waited_s: float = 0.0
    now: str = ""


class _Problem:
    """The times of a problem's right configurations, whichever kernel's."""

    def __init__(self) -> None:
        self._times_ms: dict[tuple[str, str], float] = {}
        self._drawn: set[tuple[str, str]] = set()
        self._known: _Standing | None = None  # of the times as they are

    @property
    def standing(self) -> _Standing:
        """What the times tell."""
        if self._known is None:
            times_ms = list(self._times_ms.values())
            drawn_ms = [self._times_ms[name] for name in self._drawn]
            best_ms = min(times_ms, default=None)
            self._known = _Standing(best_ms, is_sparse(times_ms), lacks_draws(times_ms, drawn_ms))
        return self._known

    def note(self, row: TimedConfiguration) -> None:
        """Take note of a row of its."""
        if (time_ms := _good(row)) is not None:
            name = row.kernel_id, canonical(row.params)
            self._times_ms[name] = min(time_ms, self._times_ms.get(name, time_ms))
            if row.chosen_by not in (NEAR_BEST, REPEAT):
                self._drawn.add(name)
            self._known = None


@dataclass(frozen=True)
class _Standing:
    """What is known of a problem.

    Attributes:
        best_ms: the shortest time so far; ``None`` where none was right.
        is_sparse: whether few of its good configurations are known.
        lacks_draws: whether those that are known were found by the search alone.
    """

    best_ms: float | None
    is_sparse: bool
    lacks_draws: bool


@dataclass
class _Cell:
    """One kernel at one shape."""

    kernel: Kernel
    shape: Params
    problem_id: str
    problem: _Problem
    bound: Mapping[str, Any]
    chooser: Chooser
    again: list[Params]
    count: int = 0
    is_pending: bool = False
    has_run: bool = False
    in_vain: set[str] = field(default_factory=set)  # those that were not measured

    def is_due(self, most: int) -> bool:
        """Whether there is something to repeat, or something new before it has had so many."""
        if not self.has_run and len(self.in_vain) >= HANDFUL:
            return False  # nor would the next ones be measured
        return bool(self.again) or (self.count < most and len(self.chooser) > 0)

    def note(self, row: TimedConfiguration) -> None:
        """Take note of a row of its."""
        self.has_run |= row.verdict not in _NEVER_RAN
        if row.verdict is Verdict.NOT_MEASURED:
            self.in_vain.add(canonical(row.params))
        self.chooser.note(row.params, _good(row))
        self.problem.note(row)

    def next(self, most: int) -> list[Chosen]:
        """The next handful."""
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
        """How much of the next handful is to be near the best so far."""
        standing = self.problem.standing
        if not self.count:
            return 0.0
        if standing.is_sparse:
            return NEAR_SHARE
        return 0.0 if standing.lacks_draws else _NEAR_SHARE_LATE


@dataclass(frozen=True)
class _Order:
    """A handful that is being compiled."""

    cell: _Cell
    chosen: Sequence[Chosen]
    compiled: Future[list[Compiled]]


def collect(
    kernels: Sequence[Kernel],
    device: Device,
    log: RunLog,
    limits: Limits,
    earlier: Sequence[TimedConfiguration] = (),
    show: Callable[[Progress], None] = lambda _: None,
    lost: Callable[[str], None] = lambda _: None,
) -> Progress:
    """Time configurations of kernels until a limit is met; rows go to `log` as they are had.

    Args:
        kernels: what to time.
        device: the GPU at hand, from the catalogue.
        log: the run's file.
        limits: when to stop.
        earlier: rows of this run and of others: configurations among them, on a GPU of this model,
            are not tried again, but for the share of other runs' that is repeated, and those of
            which all that is known is that they were not measured, once.
        show: told after each handful how far it is.
        lost: told of kernels and shapes that cannot be timed, in a sentence each.

    Raises:
        GpuBusyError: another SolKit holds the GPU.
        UnsupportedError: `device` is no live GPU.
        WorkerError: the process that times cannot be started, or none that compiles.
        TraceError: rows could not be written.
    """
    workers = limits.workers or max((os.cpu_count() or 2) - 1, 1)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="solkit-extensions-"))
        environment = toolchain.environment(device, folder)
        kernels = _buildable(kernels, toolchain.missing({**os.environ, **environment}), lost)
        ahead = stack.enter_context(Ahead(device, workers, environment))
        stack.enter_context(exclusive(_uuid_of(device), _PATIENCE_S))
        process = stack.enter_context(TimingProcess(_uuid_of(device), environment))
        known = _Known(kernels, device, earlier, log.run_id, limits.repeats)
        cells = _cells(kernels, ahead, lost, known)
        collector = _Collector(device, log, process, ahead, cells, limits.per_cell)
        return collector.run(limits.seconds, _AHEAD * workers, show)


def _uuid_of(device: Device) -> str:
    if device.uuid is None:
        raise UnsupportedError(f"{device.key} is from the catalogue: only a live GPU can time")
    return device.uuid


def _buildable(
    kernels: Sequence[Kernel], missing: str, lost: Callable[[str], None]
) -> list[Kernel]:
    """Those whose extensions, if any, can be built here; of the others it is said once."""
    left_out = [kernel for kernel in kernels if missing and kernel.builds_extension]
    if left_out:
        lost(f"{len(left_out)} kernels in CUDA C++ are left out, as there is no {missing}")
    return [kernel for kernel in kernels if kernel not in left_out]


class _Known:
    """What earlier rows of a GPU tell of kernels: the times, and which to repeat."""

    def __init__(
        self,
        kernels: Sequence[Kernel],
        device: Device,
        rows: Sequence[TimedConfiguration],
        run_id: str,
        share: float,
    ) -> None:
        self._rows: defaultdict[tuple[str, str], list[TimedConfiguration]] = defaultdict(list)
        self._problems: defaultdict[str, _Problem] = defaultdict(_Problem)
        wanted = {kernel.kernel_id for kernel in kernels}
        rows = [row for row in rows if row.kernel_id in wanted and row.device == device.key]
        in_vain: defaultdict[tuple[str, ...], set[tuple[str, int]]] = defaultdict(set)
        for row in rows:
            if row.verdict is Verdict.NOT_MEASURED:
                in_vain[row.key].add((row.run_id, row.sequence))  # two files may hold the same row
        for row in rows:
            if row.verdict is Verdict.NOT_MEASURED and len(in_vain[row.key]) < _TRIES:
                continue  # it was no fault of its own: it is to be tried again
            self._rows[row.kernel_id, row.problem_id].append(row)
            self._problems[row.problem_id].note(row)
        self._run_id, self._share = run_id, share

    def of(self, kernel_id: str, problem: str) -> list[TimedConfiguration]:
        """The rows of a cell."""
        return self._rows[kernel_id, problem]

    def problem(self, problem: str) -> _Problem:
        """What is known of a problem: the same for all of its cells."""
        return self._problems[problem]

    def again(self, kernel_id: str, problem: str) -> list[Params]:
        """Right ones of other runs, drawn at random, that this run has not yet repeated.

        Whole handfuls are drawn: a single one would cost almost as much.
        """
        rows = self.of(kernel_id, problem)
        ours = {canonical(row.params) for row in rows if row.run_id == self._run_id}
        others = [r for r in rows if r.run_id != self._run_id and r.verdict is Verdict.CORRECT]
        found = {canonical(row.params): row.params for row in others}
        chance = random.Random(f"{self._run_id} {kernel_id} {problem}")
        names = chance.sample(sorted(found), len(found))
        handfuls = [names[at : at + HANDFUL] for at in range(0, len(names), HANDFUL)]
        drawn = [name for each in handfuls if chance.random() < self._share for name in each]
        return [found[name] for name in drawn if name not in ours]


def _cells(
    kernels: Sequence[Kernel], ahead: Ahead, lost: Callable[[str], None], known: _Known
) -> Iterator[_Cell | None]:
    """Every kernel at every shape that it has valid configurations for, families mixed.

    Some kernels are surveyed ahead of the one that is wanted next, not all at once; ``None`` where
    none of these is ready yet.
    """
    left = list(kernels)
    random.Random(0).shuffle(left)
    bounds: dict[str, Future[list[dict[str, Any]]]] = {}
    surveyed: list[tuple[Kernel, Future[Any], Future[Any]]] = []
    while left or surveyed:
        while left and len(surveyed) < _SURVEYED:
            kernel = left.pop()
            if kernel.problem.sha256 not in bounds:
                bounds[kernel.problem.sha256] = ahead.bounds(str(kernel.path))
            space = ahead.space(str(kernel.path), kernel.builds_extension)
            surveyed.append((kernel, space, bounds[kernel.problem.sha256]))
        ready = [n for n, (_, space, bound) in enumerate(surveyed) if space.done() and bound.done()]
        if not ready:
            yield None
            continue
        kernel, space, bound = surveyed.pop(ready[0])
        try:
            shapes = space.result()
        except WorkerError as error:
            lost(f"{kernel.name}: {error}")
            continue
        for found, facts in zip(shapes, _facts(bound, len(shapes)), strict=True):
            if "error" in facts:
                lost(f"{kernel.name} at {found['shape']} has no bound: {facts['error']}")
            if found["valid"]:
                yield _cell(kernel, found, facts, known)


def _facts(bound: Future[list[dict[str, Any]]], shapes: int) -> list[dict[str, Any]]:
    """What is known of the bound at each shape, or why it is not."""
    try:
        facts = bound.result()
    except WorkerError as error:
        return [{"error": str(error)}] * shapes
    alike = len(facts) == shapes  # or the file has shapes of its own
    return facts if alike else [{"error": "it was traced at other shapes"}] * shapes


def _cell(
    kernel: Kernel, found: Mapping[str, Any], facts: Mapping[str, Any], known: _Known
) -> _Cell:
    shape = found["shape"]
    problem = kernel.problem_id(shape)
    chooser = Chooser(found["valid"], found["default"], f"{kernel.name} {problem}")
    rows = known.of(kernel.kernel_id, problem)
    again = known.again(kernel.kernel_id, problem)
    count = len({canonical(row.params) for row in rows})
    bound = {name: value for name, value in facts.items() if name != "error"}
    cell = _Cell(kernel, shape, problem, known.problem(problem), bound, chooser, again, count)
    for row in rows:
        cell.note(row)
    return cell


def _good(row: TimedConfiguration) -> float | None:
    """The time of one that is to be followed up; ``None`` where it was not right."""
    return row.time_ms if row.verdict is Verdict.CORRECT else None


def _launches(tried: Tried, compiled: Compiled, device: Device) -> tuple[TimedLaunch, ...]:
    """As they were made; of what was not called, as it was compiled."""
    live = [timed_launch(each, device) for each in tried.launches]
    return with_demands(live, compiled.launches) if live else compiled.launches


def _held_against(tried: Tried, bound: Mapping[str, Any]) -> Tried:
    """The same, unless no correct kernel could be as fast."""
    hard_ms = bound.get("hard_bound_ms", 0.0)
    if tried.verdict is not Verdict.CORRECT or (tried.time_ms or hard_ms) >= hard_ms:
        return tried
    why = f"{tried.time_ms} ms is under the hard bound of {hard_ms} ms"
    return replace(tried, verdict=Verdict.IMPOSSIBLE, message=why)


class _Waiting:
    """The handfuls that compile, or wait for it.

    Args:
        orders: what is wanted, in order; ``None`` where that is not known yet.
        most: how many at once.
    """

    def __init__(self, orders: Iterator[_Order | None], most: int) -> None:
        self._orders, self._most = orders, most
        self._handfuls: list[_Order] = []
        self._is_over = False

    def fill(self) -> None:
        """Have as many as there may be, or as are known to be wanted."""
        while len(self._handfuls) < self._most and not self._is_over:
            order = next(self._orders, _END)
            if order is None:
                return
            if isinstance(order, _Order):
                self._handfuls.append(order)
            else:
                self._is_over = True

    def begin(self, deadline: float) -> None:
        """Wait until there is one, if there ever will be, or `time.monotonic` is at a deadline."""
        self.fill()
        while not (self._handfuls or self._is_over or time.monotonic() >= deadline):
            time.sleep(_POLL_S)
            self.fill()

    def first_done(self, deadline: float) -> _Order | None:
        """Take the first one that is compiled, whichever that is: some take a hundred times longer.

        ``None`` where there is none left, or none by the deadline. Meanwhile others are ordered, as
        kernels are surveyed.
        """
        while True:
            self.begin(deadline)
            for place, order in enumerate(self._handfuls):
                if order.compiled.done():
                    return self._handfuls.pop(place)
            if not self._handfuls or time.monotonic() >= deadline:
                return None
            compiling = [order.compiled for order in self._handfuls]
            wait(compiling, timeout=_POLL_S, return_when=FIRST_COMPLETED)


class _Collector:
    """The loop itself."""

    def __init__(
        self,
        device: Device,
        log: RunLog,
        process: TimingProcess,
        ahead: Ahead,
        cells: Iterator[_Cell | None],
        per_cell: int,
    ) -> None:
        self._device, self._log, self._process, self._ahead = device, log, process, ahead
        self._cells, self._per_cell = cells, per_cell
        self._progress = Progress()

    def run(self, seconds: float, ahead: int, show: Callable[[Progress], None]) -> Progress:
        """Until the seconds are over or nothing is left; see `collect`."""
        waiting = _Waiting(self._orders(), ahead)
        waiting.begin(time.monotonic() + seconds)  # it compiles while the process starts
        environment = self._process.start()
        start = before = time.monotonic()
        deadline, progress = start + seconds, self._progress
        while before < deadline and (order := waiting.first_done(deadline)) is not None:
            progress.waited_s += time.monotonic() - before
            rows = self._rows(order, order.compiled.result(), environment)
            self._log.append(rows, (order.cell.kernel.source, order.cell.kernel.problem))
            for row in rows:
                order.cell.note(row)
            order.cell.is_pending = False
            progress.rows.update(row.verdict.value for row in rows)
            before = time.monotonic()
            progress.seconds, progress.now = before - start, order.cell.kernel.name
            show(progress)
        return progress

    def _orders(self) -> Iterator[_Order | None]:
        """A handful of each cell, then more where it counts most; see this module.

        Of a cell the next is chosen when the last one's times are known; ``None`` where there are
        only such to wait for, or kernels that are being surveyed.
        """
        cells: list[_Cell] = []
        meanwhile = self._rounds(cells, self._is_sought)
        for cell in self._cells:
            if cell is not None:
                cells.append(cell)
                yield from self._served(cell, HANDFUL)
                continue
            order = next(meanwhile, _END)
            if isinstance(order, _Order):
                yield order
            else:
                yield None
                if order is _END:
                    meanwhile = self._rounds(cells, self._is_sought)
        yield from self._rounds(cells, self._is_sought)
        yield from self._rounds(cells, self._contends)
        yield from self._rounds(cells, lambda _: True)

    def _rounds(
        self, cells: Sequence[_Cell], is_wanted: Callable[[_Cell], bool]
    ) -> Iterator[_Order | None]:
        """A handful of each that is wanted, then another; what was begun late catches up first."""
        most = HANDFUL
        while left := [cell for cell in cells if cell.is_due(self._per_cell) and is_wanted(cell)]:
            served = False
            for cell in filter(is_wanted, left):  # as it is by then
                for order in self._served(cell, most):
                    served = True
                    yield order
            if served:
                continue
            if 2 * sum(cell.is_pending for cell in left) > len(left):
                yield None
            else:  # a few that take long to compile do not hold up the others
                most += HANDFUL

    def _is_sought(self, cell: _Cell) -> bool:
        """Whether it may hold good configurations that its problem lacks."""
        standing = cell.problem.standing
        is_lacking = standing.is_sparse or standing.lacks_draws
        return is_lacking and self._is_within(_MAY_HOLD_BEST, cell)

    def _contends(self, cell: _Cell) -> bool:
        """Whether it has come near the best of its problem, or that is not known yet."""
        return self._is_within(_CONTENDS, cell)

    def _is_within(self, factor: float, cell: _Cell) -> bool:
        own_ms, best_ms = cell.chooser.best_ms, cell.problem.standing.best_ms
        if own_ms is None or best_ms is None:
            return cell.is_pending
        return own_ms <= factor * best_ms

    def _served(self, cell: _Cell, most: int) -> Iterator[_Order]:
        """The next handful of a cell, if one is due."""
        most = min(most, self._per_cell)
        if not cell.is_pending and cell.is_due(most) and (chosen := cell.next(most)):
            cell.is_pending = True
            yield self._order(cell, chosen)

    def _order(self, cell: _Cell, chosen: Sequence[Chosen]) -> _Order:
        params = [each for each, _ in chosen]
        compiled = self._ahead.compiled(str(cell.kernel.path), cell.shape, params)
        return _Order(cell, chosen, compiled)

    def _rows(
        self, order: _Order, compiled: Sequence[Compiled], environment: Environment
    ) -> list[TimedConfiguration]:
        """What became of a handful's configurations, of those that do not compile too."""
        found: dict[int, Tried] = {
            number: Tried(each.verdict, each.error)
            for number, each in enumerate(compiled)
            if each.error
        }
        while left := [n for n in range(len(order.chosen)) if n not in found]:
            choices = [order.chosen[n][0] for n in left]
            path = str(order.cell.kernel.path)
            try:
                found.update(
                    zip(left, self._process.tried(Handful(path, order.cell.shape, choices)))
                )
            except LostError as lost:  # the others are asked for again
                found[left[lost.number]] = lost.tried
        return [
            self._row(order, number, compiled[number], found[number], environment)
            for number in range(len(order.chosen))
        ]

    def _row(
        self,
        order: _Order,
        number: int,
        compiled: Compiled,
        tried: Tried,
        environment: Environment,
    ) -> TimedConfiguration:
        cell, (params, chosen_by) = order.cell, order.chosen[number]
        tried = _held_against(tried, cell.bound)
        kernel, seen = cell.kernel, tried.conditions
        protocol = find("cold")
        return TimedConfiguration(
            kernel_id=kernel.kernel_id,
            family=kernel.family,
            kind=kernel.kind,
            origin=kernel.origin,
            problem_id=cell.problem_id,
            device=self._device.key,
            params=params,
            verdict=tried.verdict,
            created=datetime.now(timezone.utc),
            chosen_by=chosen_by,
            time_ms=tried.time_ms,
            clock_mhz=seen.get("sm_clock_mhz"),
            implementation=kernel.name,
            entry_point="kernel",
            source_sha256=kernel.source.sha256,
            problem_sha256=kernel.problem.sha256,
            shape=cell.shape,
            warmup_calls=tried.warmup_calls,
            dtypes=tried.dtypes,
            low_ms=tried.low_ms,
            high_ms=tried.high_ms,
            samples_ms=tried.samples_ms,
            kernel_sum_ms=tried.kernel_sum_ms,
            method=tried.method,
            protocol=protocol.name,
            l2=protocol.l2,
            launched=protocol.launched,
            launches=_launches(tried, compiled, self._device),
            compile_s=None if compiled.seconds is None else round(compiled.seconds, 3),
            first_call_s=tried.first_call_s,
            max_error=tried.max_error,
            message=tried.message,
            clock_low_mhz=seen.get("sm_clock_low_mhz"),
            memory_clock_mhz=seen.get("memory_clock_mhz"),
            power_w=seen.get("power_w"),
            temperature_c=seen.get("temperature_c"),
            throttle_reasons=seen.get("reasons", {}),
            seed=SEED,
            **cell.bound,
            **asdict(environment),
        )
