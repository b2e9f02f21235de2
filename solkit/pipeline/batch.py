"""Tuning many kernels under one budget of GPU seconds.

::

    manifest ─► grounds ─► triage        what is known of each kernel and shape; no GPU
                   │
    drive, with the portfolio's choice ─► race       most of the budget
                   │
    final of each winner ─► held-out shapes          in a new process, on other inputs
                   │
    tuning database, emitters

Each outcome is in the log before the next one is waited for. A bench that fails is asked again: a
batch ends with an error only if it fails `_TRIES` times without an outcome in between, and then the
log has all that was measured: ``--resume`` goes on.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from solkit.core import (
    Batch,
    BatchItem,
    BatchSettings,
    BatchStatus,
    Configuration,
    Device,
    Difference,
    Final,
    HeldOut,
    MeasureSettings,
    Outcome,
    Stopped,
    Tuned,
    TuneSettings,
    TuneVerdict,
    canonical,
)
from solkit.core.tuned import applicable_parameters
from solkit.datasets import outcomelog
from solkit.datasets.outcomelog import OutcomeLog
from solkit.errors import (
    GpuBusyError,
    InputError,
    SolkitError,
    TraceError,
    UnsupportedError,
    WorkerError,
)
from solkit.measure.benches import Bench, RecordedBench
from solkit.pipeline.batch_work import Work, survey_manifest
from solkit.pipeline.environment import environment
from solkit.pipeline.history import keep_in_database
from solkit.pipeline.launch_keys import are_same_launches, look_at_launches
from solkit.pipeline.studying import analyser_for
from solkit.pipeline.target import target_device
from solkit.pipeline.tuning import SPENT, SearchOutcome, TuneLog, tuned_result
from solkit.spans import span

if TYPE_CHECKING:
    from typing_extensions import Self

    from solkit.analysis.analyser import Analyser
    from solkit.core.recordings import RecordedLaunch
    from solkit.core.tuned import TunedFolder
    from solkit.datasets.launch_recordings import RecordedKernel
    from solkit.measure.benches.trusted import TrustedBench
    from solkit.pipeline.remote_gpus import RemoteGpus
    from solkit.tuner.database import Database
    from solkit.tuner.head_to_head import Pair
    from solkit.tuner.manifest import Manifest
    from solkit.tuner.tuning_problem import TuningProblem

Show = Callable[[BatchStatus], None]
T = TypeVar("T")

_TRIES = 4
"""So often a bench may fail in a row; each time it is asked for the same again."""

_MENDABLE = (WorkerError, GpuBusyError, TraceError)
_TOGETHER = 8
"""Finals that are judged together: preparing one takes seconds, timing it takes less than one."""
_FINAL_S, _FINAL_SHARE = 1.5, 0.3
"""Seconds kept for each comparison after the search, and the most of the budget for all of them."""

_RACE_SHARE = 0.05

_LEAST, _NEXT_SHARE = 8, 0.1
"""Where shares count: configurations that are measured at least, and the part of the least share
that the next one must be expected to save. Replayed on Inductor's kernels of the shipped H200 set,
ten at a time, this compiles 39 instead of 106 seconds for a gain of 1.385 instead of 1.394."""
_SEEN_S = 5.0
"""Seconds to wait for what winners launch, in all: the GPU is held meanwhile."""
_MEASURED_PER_S = 15
"""Configurations of small kernels a GPU second: on an H200 a Liger step's were 27, finals aside."""


def batch(
    manifest: str | os.PathLike[str] | Manifest,
    *,
    gpu_minutes: float | None = None,
    device: str | Device | None = None,
    bench: Bench | None = None,
    triage: bool = False,
    settings: BatchSettings | None = None,
    show: Show = lambda _: None,
) -> Batch:
    """Tune the kernels of a manifest under one budget, where most time can be saved.

    The parameters in use are always measured. A winner must be faster in a final, and correct and
    not slower at held-out shapes; otherwise the original stays. An interrupt (Ctrl-C) ends the
    search, a second one the finals; nothing that was measured is lost.

    Args:
        manifest: a manifest, its file, or a folder that `solkit record` wrote. A recording's
            winners are written as a tuned folder, into `settings.emit_to` or the recording itself.
        gpu_minutes: the budget; the manifest's by default.
        device: the GPU; the manifest's by default, else the first of this machine.
        bench: measures instead of this machine's GPU, e.g.
            `solkit.measure.benches.RecordedBench`.
        triage: only say which kernels are worth tuning; spends no GPU time and needs no GPU.
        settings: how to run.
        show: receives how far it is.

    Raises:
        InputError: the manifest is invalid, or no kernel in it can be tuned.
        UnsupportedError: there is neither a GPU nor a bench.
        GpuBusyError, WorkerError, TraceError: measuring failed again and again; the log has all
            that was measured.
    """
    run = _batch(manifest, gpu_minutes, triage, settings or BatchSettings(), show)
    return run.run(device, bench, triage)


class BatchProcesses:
    """Processes of batches on a GPU of this machine, loading while there is no manifest yet.

    For a ``with`` block. Loading takes seconds and no GPU.

    Args:
        gpu: of this machine.
        workers: processes that compile; 0 for all cores except one.
    """

    def __init__(self, gpu: Device, workers: int = 0) -> None:
        from solkit.measure.benches.trusted import Ahead, TimingProcess

        self.gpu = gpu
        self.ahead = Ahead(gpu, workers, facts=False)
        self.timing = TimingProcess(gpu, self.ahead.environment)
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:  # what fails leaves nothing behind
            stack.enter_context(self.ahead).load()
            stack.callback(self.timing.close)
            self.timing.load()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def batch(
        self,
        manifest: str | os.PathLike[str],
        *,
        gpu_minutes: float,
        settings: BatchSettings,
        show: Show = lambda _: None,
    ) -> Batch:
        """Tune with these processes; see `batch`."""
        run = _batch(manifest, gpu_minutes, False, settings, show)
        run.processes = self
        return run.run(self.gpu, None, triage=False)


def _batch(
    manifest: str | os.PathLike[str] | Manifest,
    gpu_minutes: float | None,
    triage: bool,
    how: BatchSettings,
    show: Show,
) -> _Batch:
    """Return the run of a manifest, which is read first."""
    from solkit.datasets.launch_recordings import is_recording
    from solkit.tuner import manifest as manifests
    from solkit.tuner.recorded_manifest import recorded_manifest

    recorded: tuple[RecordedKernel, ...] = ()
    reasons: tuple[str, ...] = ()
    if isinstance(manifest, manifests.Manifest):
        parsed = manifest
    elif is_recording(manifest):
        parsed, recorded, reasons = recorded_manifest(manifest, _known_programs(how))
    else:
        parsed = manifests.read_manifest(manifest)
    minutes = parsed.limits.gpu_minutes if gpu_minutes is None else gpu_minutes
    if not triage and not (minutes and minutes > 0):
        raise InputError(f"{parsed.path} has no limits.gpu_minutes: give gpu_minutes, above 0")
    return _Batch(parsed, how, 60.0 * (minutes or 0.0), show, list(reasons), recorded=recorded)


def _choices_of(launch: RecordedLaunch) -> int:
    """Return how many configurations of a recorded launch can be applied."""
    varied = applicable_parameters(launch.launcher, launch.tiles)
    spaces = (v for name, v in launch.space.items() if varied is None or name in varied)
    return len(launch.configs) or prod(map(len, spaces))


def _known_programs(settings: BatchSettings) -> frozenset[str]:
    extended = settings.extended
    return frozenset() if extended is None else extended.known_programs()


def _with_others(tuned: TunedFolder, folder: str | os.PathLike[str]) -> TunedFolder:
    """Return a tuned folder with what another process wrote there for this GPU and Triton."""
    from solkit.datasets.tuned_folder import read_tuned_folder

    try:
        there = read_tuned_folder(folder)
    except InputError:
        return tuned
    is_alike = (there.device, there.triton) == (tuned.device, tuned.triton)
    return tuned.extended(there) if is_alike else tuned


@dataclass
class _Batch:
    """One run of `batch`."""

    manifest: Manifest
    how: BatchSettings
    budget_s: float
    show: Show
    notes: list[str] = field(default_factory=list)
    interrupted: bool = False
    place: RemoteGpus | None = None  # several GPUs
    workers: Bench | None = None  # the bench there
    processes: BatchProcesses | None = None  # on this machine
    trusted: TrustedBench | None = None  # the bench of these
    stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)  # closes it
    recorded: tuple[RecordedKernel, ...] = ()  # of the recording that is the manifest

    def run(self, device: str | Device | None, bench: Bench | None, triage: bool) -> Batch:
        if bench is None and not triage and (self.how.gpus or self.how.ray):
            return self._run_elsewhere(device or self.manifest.device)
        limits = MeasureSettings(on=self.how.on)
        to = (
            bench.device
            if bench is not None
            else target_device(device or self.manifest.device, limits)
        )
        if bench is None and not triage and to.source != "nvml":
            raise UnsupportedError(
                f"cannot time on {to.name}: it is not in this machine; --triage and a recording "
                "(--recorded FILE, or bench=RecordedBench.read(FILE)) need no GPU"
            )
        with contextlib.ExitStack() as self.stack:
            if bench is None and not triage and self.processes is None:
                own = BatchProcesses(to, self.how.workers)  # they load while kernels are looked at
                self.processes = self.stack.enter_context(own)
            return self._triage_and_run(to, bench, triage)

    def _run_elsewhere(self, device: str | Device | None) -> Batch:
        """Run on several GPUs of this machine, or on those of a cluster, all of one model."""
        from solkit.pipeline.remote_gpus import RemoteGpus

        self.place = RemoteGpus(self._tune_settings(), device, self._add_note)
        with contextlib.ExitStack() as self.stack:
            self.workers = self.stack.enter_context(self.place.open_workers())
            return self._triage_and_run(self.workers.device, None, triage=False)

    def _triage_and_run(self, to: Device, bench: Bench | None, triage: bool) -> Batch:
        """Return the triage, and what follows it."""
        database = self._open_database(bench)
        self.show(BatchStatus("looking", budget_s=self.budget_s))
        with span("kernels looked at"):
            works = survey_manifest(
                self.manifest, to, bench, self._tune_settings(), database, self.notes
            )
        triaged = sorted((work.triaged for work in works), key=lambda e: -(e.saving_ms or 0.0))
        result = Batch(
            self.manifest.path, to.key, tuple(triaged), budget_s=self.budget_s,
            notes=tuple(self.notes), environment=environment(),
        )  # fmt: skip
        return result if triage else self._tune_works(result, works, to, bench, database)

    def _tune_settings(self) -> TuneSettings:
        limits = self.manifest.limits
        stop_at = limits.stop_at if self.how.stop_at is None else self.how.stop_at
        how = self.how
        where = {"gpus": how.gpus, "ray": how.ray, "workers": how.workers, "on": how.on}
        prior = how.prior and not self._can_measure_all()
        rules = {"stop_at": stop_at, "least_gain": how.least_gain}
        return TuneSettings(**rules, seed=how.seed, prior=prior, **where)  # type: ignore[arg-type]

    def _can_measure_all(self) -> bool:
        """Tell whether the budget measures all that is recorded, so that ranks only cost time."""
        if not self.recorded or self.processes is None:
            return False
        launches = [launch for kernel in self.recorded for launch in kernel.launches]
        return sum(map(_choices_of, launches)) <= _MEASURED_PER_S * self.budget_s

    def _open_database(self, bench: Bench | None) -> Database | None:
        """Return the tuning database; recordings are not merged into the user's own."""
        if not self.how.use_database or (
            isinstance(bench, RecordedBench) and self.how.database is None
        ):
            return None
        from solkit.tuner.database import Database

        return Database(self.how.database)

    def _database_folder(self) -> str:
        from solkit.tuner.database import default_folder

        return os.fspath(self.how.database or default_folder())

    # --------------------------------------------------------------------------------- measuring

    def _tune_works(
        self,
        result: Batch,
        works: Sequence[Work],
        gpu: Device,
        bench: Bench | None,
        database: Database | None,
    ) -> Batch:
        keeps = isinstance(bench, RecordedBench)
        with contextlib.ExitStack() as stack:
            log: TuneLog | None = None
            if not keeps or self.how.log is not None:
                about = {"what": "solkit batch", "manifest": self.manifest.path}
                log = TuneLog(self.how.log, {**about, "gpu_s": self.budget_s}, self.how.resume)
                stack.enter_context(log)
            course = _Course(self, works, log, keeps)
            if not keeps:
                course.analyser = stack.enter_context(analyser_for(gpu, MeasureSettings()))
            course.resume()
            try:
                with self._open_bench(bench, log) as on, span("search"):
                    course.search(on)
                with self._open_bench(bench, log, seed=1) as on, span("finals"):
                    course.judge(on)
            finally:
                self._merge_into_database(database, log)
        items = self._write_emitted(works, course.items(gpu, log))
        held = replace(result, items=tuple(items), interrupted=self.interrupted)
        self._write_tuned_folder(held, verified=not keeps)
        return replace(
            result,
            items=tuple(items),
            gpu_s=course.spent_s,
            interrupted=self.interrupted,
            log=None if log is None else str(log.path),
            database=None if database is None else self._database_folder(),
            notes=tuple(self.notes),
        )

    @contextlib.contextmanager
    def _open_bench(
        self, bench: Bench | None, log: OutcomeLog | None, seed: int = 0
    ) -> Iterator[Bench]:
        """Yield the bench; for the finals in another process, whose inputs are others (`seed`)."""
        if bench is not None:
            yield bench
            return
        assert log is not None
        if self.place is not None and self.workers is not None:
            self.place.log = log
            if not seed:
                with self.stack:  # they are there since the kernels were looked at
                    yield self.workers
                return
            with self.place.open_workers(seed, gpus=1) as on:
                yield on
            return
        yield self._renewed_bench(log, seed)

    def _renewed_bench(self, log: OutcomeLog, seed: int) -> Bench:
        """Return this machine's bench: for the finals a process is ready that measured nothing."""
        from solkit.measure.benches.trusted import TrustedBench

        if self.trusted is None:
            assert self.processes is not None
            ahead, timing = self.processes.ahead, self.processes.timing
            own = TrustedBench(ahead, log, tell=self._add_note, process=timing)
            self.trusted = self.stack.enter_context(own)
        if seed:
            self.trusted.renew(seed)
        return self.trusted

    def _add_note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    # --------------------------------------------------------------------------------- afterwards

    def _merge_into_database(self, database: Database | None, log: OutcomeLog | None) -> None:
        """Add the run to the tuning database. If that fails, the log still has everything."""
        if database is not None and log is not None and (note := keep_in_database(database, log)):
            self._add_note(note)

    def _write_tuned_folder(self, result: Batch, verified: bool) -> None:
        """Write what `solkit.apply` gives the recorded program's launches."""
        from solkit.datasets.launch_recordings import launches_as_recorded
        from solkit.datasets.tuned_folder import write_tuned_folder
        from solkit.tuner.recorded_manifest import tuned_folder_of

        if not self.recorded:
            return
        place = self.how.emit_to or self.manifest.path
        tuned = tuned_folder_of(result, self.recorded, verified)
        if self.how.extended is not None:
            tuned = _with_others(tuned.extended(self.how.extended), place)
        path = write_tuned_folder(place, tuned)
        self._add_note(f"{path} has {len(tuned.entries)} tuned launches, for `solkit.apply`.")
        if edited := [k.name for k in self.recorded if not launches_as_recorded(k)]:
            self._add_note(
                f"Not in it, as their kernels are no longer those recorded: {', '.join(edited)}."
            )

    def _write_emitted(self, works: Sequence[Work], items: Sequence[BatchItem]) -> list[BatchItem]:
        """Write the forms that the manifest asks for: each entry's results together."""
        from solkit.tuner.emitters import emit, parse_target

        folder = Path(self.how.emit_to or Path(self.manifest.path).parent)
        updated = list(items)
        for line in dict.fromkeys(work.entry.line for work in works):
            places = [n for n, work in enumerate(works) if work.entry.line == line]
            entry, tuned = works[places[0]].entry, [items[n].tuned for n in places]
            for target_text in entry.emit:
                target = parse_target(target_text)
                try:
                    written = emit(tuned, target.form, folder / target.path, names=entry.names)
                except InputError as error:
                    self._add_note(f"{entry.title}: {target_text} was not written: {error}")
                    continue
                self.notes.extend(written.notes)
                paths = tuple(map(str, written.paths))
                for n in places:
                    updated[n] = replace(updated[n], emitted=(*updated[n].emitted, *paths))
        return updated


# ------------------------------------------------------------------------------------- the course


@dataclass
class _Course:
    """Work on the bench, and its results."""

    batch: _Batch
    works: Sequence[Work]
    log: TuneLog | None
    keeps: bool  # whether the log is written here, not by the bench
    analyser: Analyser | None = None  # sees what launches winners share with what is in use
    spent_s: float = 0.0
    decided: dict[int, Final] = field(default_factory=dict)  # of the resumed run
    finals: dict[int, Final] = field(default_factory=dict)
    held: dict[int, tuple[HeldOut, ...]] = field(default_factory=dict)
    took_s: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    final_s: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        how = self.batch._tune_settings()
        self.tasks = [work.task(how) for work in self.works]
        for place, task in enumerate(self.tasks):
            task.neighbours = [self.tasks[n] for n in self._places_of_other_shapes(place)]
        self._of = {id(task): place for place, task in enumerate(self.tasks)}
        self._written: set[tuple[object, ...]] = set()
        if self.log is not None:
            self.log.spent = lambda: self.spent_s

    def _places_of_other_shapes(self, place: int) -> list[int]:
        """Return the places of the same kernel at other shapes, the nearest first."""
        from solkit.tuner.transfer_prior import shape_distance

        own = self.works[place].ground
        others = [
            n
            for n, work in enumerate(self.works)
            if n != place and work.ground.kernel_id == own.kernel_id
        ]
        return sorted(others, key=lambda n: shape_distance(self.works[n].ground.shape, own.shape))

    # ------------------------------------------------------------------------------------ resume

    def resume(self) -> None:
        """Tell the tasks what the log's run measured."""
        if self.log is None or not self.batch.how.resume:
            return
        places = {
            (e.ground.kernel_id, e.ground.problem_id): place for place, e in enumerate(self.works)
        }
        for row in outcomelog.read(self.log.path).rows:
            place = places.get((row.kernel_id, row.problem_id))
            if row.run_id != self.log.run_id:
                continue
            self.spent_s = max(self.spent_s, float(row.extra.get(SPENT, 0.0)))
            if place is not None:
                self._retell_row(place, row)

    def _retell_row(self, place: int, row: Outcome) -> None:
        if row.comparison is not None:
            self.decided[place] = _read_decision(row)
            return
        self._written.add(self._row_identity(row))
        configuration = replace(self.works[place].ground.default, params=row.params)
        self.tasks[place].tell(replace(configuration, chosen_by=row.chosen_by), row, self.spent_s)
        self.took_s[place] += row.gpu_s or 0.0

    # ------------------------------------------------------------------------------------ search

    def search(self, bench: Bench) -> None:
        """Search, then let contenders race."""
        from solkit.tuner.bench_driver import drive_bench
        from solkit.tuner.portfolio import PortfolioSettings, portfolio_choice
        from solkit.tuner.racing import race_contenders

        order = sorted(
            range(len(self.tasks)), key=lambda n: -(self.works[n].triaged.saving_ms or 0.0)
        )
        tasks = [self.tasks[n] for n in order]
        cores = max(bench.capacity // 24, 1)
        # what is in use says first which kernels deserve that others are compiled
        rules = {"fair": 1} if self.batch.how.least_share else {}
        choose = portfolio_choice(PortfolioSettings(cores=cores, **rules))
        racing_s = _RACE_SHARE * self.batch.budget_s
        until_s = self.batch.budget_s - self._reserved_s() - racing_s
        try:
            self._retry_bench(
                lambda: drive_bench(
                    bench, tasks, until_s, choose, self._record_outcome, self.spent_s
                ),
                bench,
            )
            for task in filter(_beats_default, tasks):
                racing = partial(race_contenders, heard=self._record_outcome, spent_s=self.spent_s)
                self._retry_bench(partial(racing, bench, task, racing_s / len(tasks)), bench)
        except KeyboardInterrupt:
            self.batch.interrupted = True
            bench.discard()

    def _reserved_s(self) -> float:
        """Return seconds of the budget that finals and held-out shapes are likely to take."""
        comparisons = sum(1 + len(work.held_out) for work in self.works)
        return min(_FINAL_S * comparisons, _FINAL_SHARE * self.batch.budget_s)

    def _record_outcome(
        self, task: TuningProblem, _: Configuration, outcome: Outcome, spent_s: float
    ) -> None:
        self.spent_s = max(self.spent_s, spent_s)
        place = self._of[id(task)]
        self.took_s[place] += outcome.gpu_s or 0.0
        if self.keeps and self.log is not None:
            self._save_outcome(outcome)
        self._give_up_small_shares(task)
        self.batch.show(self._batch_status("searching", self.works[place].name))

    def _give_up_small_shares(self, measured: TuningProblem) -> None:
        """Stop kernels that could save too little, once all kernels in use are timed.

        Stop the one that was measured, too, if another measurement is expected to save too little.
        """
        share = self.batch.how.least_share
        if not share or any(task.owes_default for task in self.tasks):
            return
        total_ms = math.fsum(map(_time_in_use_ms, self.tasks))
        for task in self.tasks:
            if task.possible_saving_ms() < share * total_ms:
                task.give_up()
        expected_ms = measured.weight * measured.expected_saving_ms()
        if measured.measured >= _LEAST and expected_ms < _NEXT_SHARE * share * total_ms:
            measured.give_up()

    def _save_outcome(self, outcome: Outcome) -> None:
        """Write an outcome of a recording; a full disk is tried again."""
        assert self.log is not None
        if (identity := self._row_identity(outcome)) in self._written:
            return  # a recording starts again after its last repeat
        self._written.add(identity)
        for tries_left in reversed(range(_TRIES)):
            try:
                self.log.append([outcome])
                return
            except TraceError:
                if not tries_left:
                    raise

    @staticmethod
    def _row_identity(outcome: Outcome) -> tuple[object, ...]:
        from solkit.tuner.tuning_problem import identity_of

        return outcome.kernel_id, outcome.problem_id, *identity_of(outcome)

    def _retry_bench(self, call: Callable[[], T], bench: Bench) -> T | None:
        """Call, and again if the bench fails, unless nothing is measured in between."""
        failures = 0
        while True:
            before = self._count_outcomes()
            try:
                return call()
            except _MENDABLE as error:
                bench.discard()
                failures = 1 if self._count_outcomes() > before else failures + 1
                self.batch._add_note(f"Measuring failed and was taken up again: {error}")
                if failures >= _TRIES:
                    raise

    def _count_outcomes(self) -> int:
        return sum(len(s.outcomes) for task in self.tasks for s in task.standings)

    def _batch_status(self, stage: str, now: str = "") -> BatchStatus:
        return BatchStatus(
            stage,
            now,
            self.spent_s,
            self.batch.budget_s,
            sum(task.measured for task in self.tasks),
            sum(task.stopped is None for task in self.tasks),
            len(self.tasks),
            sum(map(_total_saving_ms, self.tasks)),
        )

    # ------------------------------------------------------------------------------------ finals

    def judge(self, bench: Bench) -> None:
        """Judge the finals, and the gate of each winner; the largest savings first.

        Some are judged together: the bench prepares some while it times others.
        """
        order = sorted(
            range(len(self.tasks)), key=lambda place: -_total_saving_ms(self.tasks[place])
        )
        order = [place for place in order if not self._is_decided(place)]
        begun_s, before_s = bench.clock.gpu_s(), self.spent_s

        def spent_since() -> float:
            return before_s + bench.clock.gpu_s() - begun_s

        if self.log is not None:
            self.log.spent = spent_since
        try:
            for first in range(0, len(order), _TOGETHER):
                unjudged = sum(_beats_default(self.tasks[place]) for place in order[first:])
                if first and unjudged and self.spent_s >= self.batch.budget_s:
                    self.batch._add_note(f"The budget ended before {unjudged} finals: none counts.")
                    break
                judged = self._conclude_tasks(order[first : first + _TOGETHER], bench)
                for place in judged:
                    self.final_s[place] = (spent_since() - self.spent_s) / len(judged)
                self.spent_s = spent_since()
        except KeyboardInterrupt:
            self.batch.interrupted = True
            self.batch._add_note("The finals were interrupted: winners without one are not used.")
            bench.discard()
        self.spent_s = max(self.spent_s, spent_since())

    def _is_decided(self, place: int) -> bool:
        """Tell whether the resumed run has judged a task's best already."""
        best, earlier = self.tasks[place].choice, self.decided.get(place)
        if not best or not earlier:
            return False
        if canonical(best.configuration.params) != canonical(earlier.params):
            return False
        self.finals[place] = earlier
        return True

    def _conclude_tasks(self, places: Sequence[int], bench: Bench) -> list[int]:
        """Conclude tasks' finals, then their winners' gates; return the tasks with a gate."""
        from solkit.tuner.head_to_head import judge_bests
        from solkit.tuner.holdout import Winner, pass_gates

        judge = partial(self._judge_pairs, bench)
        self.batch.show(self._batch_status("final", self._name_tasks(places)))
        self._look_at_launches(places)
        results = judge_bests([self.tasks[n] for n in places], judge)
        finals_by_place = {
            place: final for place, final in zip(places, results, strict=True) if final is not None
        }
        won = [
            place
            for place, final in finals_by_place.items()
            if final.difference is Difference.FASTER and self.works[place].held_out
        ]
        for place, final in finals_by_place.items():
            if place not in won:  # a winner counts once it has held at its held-out shapes
                self.finals[place] = final
                self._write_decision(place)
        if won:
            self.batch.show(self._batch_status("held out", self._name_tasks(won)))
        bases = [self.tasks[place].default for place in won]
        winners = [
            Winner(base, replace(base, params=finals_by_place[n].params), self.works[n].held_out)
            for n, base in zip(won, bases, strict=True)
        ]
        are_same = partial(self._are_same, time.monotonic() + _SEEN_S)
        self.held.update(zip(won, pass_gates(winners, judge, are_same), strict=True))
        for place in won:
            self.finals[place] = finals_by_place[place]
            self._write_decision(place)
        return list(finals_by_place)

    def _look_at_launches(self, places: Sequence[int]) -> None:
        """Begin to see, while finals are timed, what likely winners launch at held-out shapes."""
        for task, work in ((self.tasks[place], self.works[place]) for place in places):
            if self.analyser is not None and _beats_default(task) and task.choice is not None:
                both = task.default, task.choice.configuration
                look_at_launches(self.analyser, both, [shape for shape, _ in work.held_out])

    def _are_same(self, until_s: float, base: Configuration, winner: Configuration) -> bool:
        """Tell whether a winner makes the launches in use, as far as that is seen by then."""
        remaining_s = max(until_s - time.monotonic(), 0.0)
        seen = self.analyser
        return seen is not None and are_same_launches(seen, base, winner, remaining_s)

    def _name_tasks(self, places: Sequence[int]) -> str:
        """Return the name of some tasks, for people."""
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        return f"{self.works[places[0]].name}{more}"

    def _judge_pairs(self, bench: Bench, pairs: Sequence[Pair]) -> list[Final]:
        """Return the comparisons of pairs; those that cannot be made decide nothing.

        If the bench fails for all together, each pair is compared alone.
        """
        from solkit.tuner.head_to_head import heads_to_heads

        how = "recorded" if self.keeps else "turns"
        try:
            if len(pairs) > 1:
                return heads_to_heads(bench, pairs, how=how)
            results = self._retry_bench(lambda: heads_to_heads(bench, pairs, how=how), bench)
            assert results is not None
            return results
        except SolkitError as error:
            bench.discard()
            if len(pairs) > 1:
                return [result for pair in pairs for result in self._judge_pairs(bench, [pair])]
            why = f"They could not be compared: {error}"
            rival = pairs[0][1]
            return [Final(rival.params, Difference.NOT_COMPARED, None, "none", (why,))]

    def _write_decision(self, place: int) -> None:
        """Write what was decided, so that the log and the database say it."""
        if self.log is None:
            return
        from solkit.tuner.tuning_results import decision_row

        task, final = self.tasks[place], self.finals[place]
        failed = [check for check in self.held.get(place, ()) if not check.passed]
        if failed:
            why = tuple(f"At held-out {canonical(e.shape)}: {e.why}" for e in failed)
            final = replace(final, difference=Difference.NOT_SHOWN, how="gate", evidence=why)
        rows = {canonical(e.configuration.params): e.outcomes[-1] for e in task.standings}
        winner = rows[canonical(final.params)]
        incumbent = rows[canonical(task.default.params)]
        self.log.append([decision_row(winner, incumbent, final)])

    # ------------------------------------------------------------------------------------ results

    def items(self, gpu: Device, log: OutcomeLog | None) -> list[BatchItem]:
        """Return the results, in the order of the manifest."""
        return [self._batch_item(place, gpu, log) for place in range(len(self.works))]

    def _batch_item(self, place: int, gpu: Device, log: OutcomeLog | None) -> BatchItem:
        work, task = self.works[place], self.tasks[place]
        stopped = task.stopped or (
            Stopped.INTERRUPTED if self.batch.interrupted else Stopped.BUDGET
        )
        searched = SearchOutcome(task, self.took_s[place], stopped)
        notes, last = list(work.ground.notes), self.finals.get(place)
        tuned = tuned_result(searched, work.ground, gpu, last, log, notes, self.final_s[place])
        held = self.held.get(place, ())
        return BatchItem(_taken_back_if_failed(tuned, held), work.triaged.calls, held)


def _read_decision(row: Outcome) -> Final:
    """Read from a row what an earlier part of the run decided."""
    from solkit.tuner.tuning_results import DECISION

    assert row.comparison is not None
    recorded = row.extra.get(DECISION, {})
    evidence = tuple(map(str, recorded.get("evidence", ())))
    how = str(recorded.get("how", "turns"))
    return Final(row.params, row.comparison.difference, row.comparison.ratio, how, evidence)


def _taken_back_if_failed(tuned: Tuned, held: Sequence[HeldOut]) -> Tuned:
    """Return the original stays if the winner fails at a held-out shape."""
    failed = [check for check in held if not check.passed]
    if not failed:
        return tuned
    why = [f"Taken back at held-out {canonical(e.shape)}: {e.why}" for e in failed]
    return replace(tuned, verdict=TuneVerdict.KEEP, notes=(*tuned.notes, *why))


def _beats_default(task: TuningProblem) -> bool:
    return task.best not in (None, task.incumbent)


def _time_in_use_ms(task: TuningProblem) -> float:
    """Return the time of all calls with the parameters in use; 0 if they cannot be timed."""
    now = task.incumbent
    return 0.0 if now is None else task.weight * (now.time_ms or 0.0)


def _total_saving_ms(task: TuningProblem) -> float:
    """Return what all calls would save with the best so far."""
    best, now = task.best, task.incumbent
    if best is None or now is None or best.time_ms is None or now.time_ms is None:
        return 0.0
    return task.weight * (now.time_ms - best.time_ms)
