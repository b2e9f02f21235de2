"""Tuning one kernel at one shape under a budget of GPU seconds.

::

    ground: what may vary, its speed of light, what is believed     no GPU
       │
    drive: the search on a bench ─► race: contenders, in turns      the budget
       │
    final: the best against the one in use, in a new process        after it
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from solkit.core import (
    Configuration,
    Device,
    Difference,
    Final,
    MeasureSettings,
    Outcome,
    Stopped,
    TimedParams,
    Tuned,
    TuneSettings,
    TuneStatus,
    TuneVerdict,
    canonical,
)
from solkit.core.values import finite_or_none
from solkit.datasets import outcomelog
from solkit.datasets.outcomelog import OutcomeLog
from solkit.errors import InputError, SolkitError, UnsupportedError
from solkit.measure.benches import Bench, RecordedBench
from solkit.pipeline.environment import environment
from solkit.pipeline.history import keep_in_database, remembered
from solkit.pipeline.studying import Shape, analyser_for
from solkit.pipeline.target import target_device
from solkit.pipeline.tuning_context import TuningContext, live_ground, recorded_ground
from solkit.spans import span

if TYPE_CHECKING:
    from solkit.measure.benches.trusted import TrustedBench
    from solkit.tuner.head_to_head import Judge
    from solkit.tuner.tuning_problem import TrialSummary, TuningProblem

Show = Callable[[TuneStatus], None]

SPENT = "tune_gpu_s"
"""In `Outcome.extra` of a log: GPU seconds that the run had spent by then."""

_FINAL_SEED = 1  # of inputs; the search's have another
_RACE_SHARE, _RACE_S = 0.05, 2.0  # of the budget, and at most, kept for the race


def tune(
    path: str | os.PathLike[str],
    *,
    gpu_seconds: float = 60.0,
    device: str | Device | None = None,
    reference: str | os.PathLike[str] | None = None,
    shape: Shape | None = None,
    bench: Bench | None = None,
    settings: TuneSettings | None = None,
    show: Show = lambda _: None,
) -> Tuned:
    """Search a kernel's parameters for faster ones, under a budget of GPU seconds.

    The parameters in use are measured first. The best ones found then meet them in a final, whose
    samples alone count: without a significant win the verdict is to keep what you have. An
    interrupt (Ctrl-C) ends the search; the final still runs, unless it is interrupted as well.

    Args:
        path: the kernel file; on a recorded bench also a recorded kernel's id or name.
        gpu_seconds: for the search. The final comes after it and takes some 20 s.
        device: the GPU of this machine; by default the first.
        reference: the file with the reference, if `path` lacks one.
        shape: sizes to override; the file's first shape by default.
        bench: measures instead of this machine's GPU, e.g.
            `solkit.measure.benches.RecordedBench`.
        settings: how to tune.
        show: receives how far it is.

    Raises:
        InputError: the file, its shape or a parameter is invalid; or a recording lacks it.
        UnsupportedError: there is neither a GPU nor a bench.
        GpuBusyError: another SolKit holds the GPU.
        WorkerError: SolKit's own part failed.
        TraceError: an outcome could not be written.
    """
    if not gpu_seconds > 0:
        raise InputError(f"gpu_seconds is {gpu_seconds!r}; expected a budget above 0")
    how = settings or TuneSettings()
    other = None if reference is None else os.fspath(reference)
    what = os.fspath(path), other, shape
    run = _Run(gpu_seconds, how, show)
    if isinstance(bench, RecordedBench):
        return run.on(bench, recorded_ground(bench, *what, how))
    if bench is None and (how.gpus or how.ray):
        return run.elsewhere(what, device)
    limits = MeasureSettings(on=how.on)
    to = target_device(device, limits) if bench is None else bench.device
    if bench is None and to.source != "nvml":
        raise UnsupportedError(
            f"cannot time on {to.name}: it is not in this machine; a recording can be replayed "
            "without a GPU (--recorded FILE, or bench=RecordedBench.read(FILE))"
        )

    def study_kernel() -> TuningContext:
        show(TuneStatus("ranking"))
        with analyser_for(to, limits) as analyser, span("space, bound, ranks"):
            return live_ground(analyser, *what, how)

    return run.here(to, study_kernel) if bench is None else run.on(bench, study_kernel())


class TuneLog(OutcomeLog):
    """A log whose rows say what the run had spent by then.

    Attributes:
        spent: gives the GPU seconds.
    """

    spent: Callable[[], float] = staticmethod(lambda: 0.0)

    def extra_of(self, row: Outcome) -> Mapping[str, Any]:  # noqa: ARG002 - alike for all
        """Return the GPU seconds spent by now."""
        return {SPENT: round(self.spent(), 3)}


@dataclass
class _Run:
    """One run of `tune`."""

    budget_s: float
    how: TuneSettings
    show: Show

    def here(self, gpu: Device, study_kernel: Callable[[], TuningContext]) -> Tuned:
        """Tune on this machine's GPU. What compiles and times loads while the kernel is studied."""
        from solkit.measure.benches.trusted import Ahead, TimingProcess, TrustedBench

        notes: list[str] = []
        with (
            Ahead(gpu, self.how.workers, facts=False) as ahead,
            contextlib.closing(TimingProcess(gpu, ahead.environment)) as process,
        ):
            ahead.load()
            process.load()
            ground = study_kernel()
            log = self._open_log(ground)
            with (
                log,
                TrustedBench(ahead, log, tell=notes.append, process=process) as bench,
            ):
                final = MeasureSettings(on=self.how.on, searching=True)  # turns decide
                if self.how.final == "guarded":
                    _load_for_final(gpu, final, ground)
                searched = self._search_and_race(bench, ground, log)
                judge: Judge = partial(_in_new_process, bench)
                if self.how.final == "guarded":
                    bench.close()
                    # it logs on its own, as a run: this one, which may be resumed, stays alone
                    judge = partial(guarded_final, gpu, final, searched=True)
                return self._conclude_run(searched, ground, gpu, judge, log, notes)

    def on(self, bench: Bench, ground: TuningContext) -> Tuned:
        """Tune on a bench. A recorded one writes no log: this does, if one is named."""
        from solkit.tuner.head_to_head import head_to_head

        is_recorded = isinstance(bench, RecordedBench)
        with contextlib.ExitStack() as stack:
            log = None if self.how.log is None else self._open_log(ground)
            if log is not None:
                stack.enter_context(log)
            searched = self._search_and_race(bench, ground, log, keeps=is_recorded)
            judge = partial(head_to_head, bench, how="recorded" if is_recorded else "turns")
            tuned = self._conclude_run(searched, ground, bench.device, judge, log, [])
        if not isinstance(bench, RecordedBench):
            return tuned
        rows = (row for row in bench.recording if row.kernel_id == tuned.kernel_id)
        return replace(tuned, environment=_recorded_with(tuned, rows))

    def elsewhere(
        self, what: tuple[str, str | None, Shape | None], device: str | Device | None
    ) -> Tuned:
        """Tune on several GPUs of this machine, or on those of a cluster, all of one model."""
        from solkit.pipeline.remote_gpus import RemoteGpus

        notes: list[str] = []
        place = RemoteGpus(self.how, device, notes.append)
        with contextlib.ExitStack() as stack:
            with place.open_workers() as bench:
                self.show(TuneStatus("ranking"))
                with analyser_for(bench.device, MeasureSettings()) as analyser:
                    ground = live_ground(analyser, *what, self.how)
                place.log = log = self._open_log(ground)
                stack.enter_context(log)
                searched = self._search_and_race(bench, ground, log)
                gpu = bench.device
            judge = partial(place.head_to_head, _FINAL_SEED)
            return self._conclude_run(searched, ground, gpu, judge, log, notes)

    # ------------------------------------------------------------------------------------ steps

    def _open_log(self, ground: TuningContext) -> TuneLog:
        about = {
            "what": "solkit tune",
            "kernel": ground.name,
            "shape": dict(ground.shape),
            "gpu_seconds": self.budget_s,
            "seed": self.how.seed,
        }
        return TuneLog(self.how.log, about, resume=self.how.resume)

    def _search_and_race(
        self, bench: Bench, ground: TuningContext, log: TuneLog | None, keeps: bool = False
    ) -> SearchOutcome:
        """Return the search and the race; `keeps` if the log is written here, not by the bench."""
        from solkit.tuner.bench_driver import drive_bench
        from solkit.tuner.racing import race_contenders
        from solkit.tuner.transferred_choices import ChoicesElsewhere

        elsewhere = ChoicesElsewhere(self.how.choices, self.how.names)
        history = remembered(ground, self.how.database, bench.device.key, elsewhere)
        task = history.ground.task(self.how, first=history.first)
        earlier_s = self._resume_from_log(task, ground, log)
        begun_s = bench.clock.gpu_s()
        searched = SearchOutcome(task, earlier_s, note=history.note)

        def spent() -> float:
            return earlier_s + bench.clock.gpu_s() - begun_s

        if log is not None:
            log.spent = spent

        def heard(_: TuningProblem, __: Configuration, outcome: Outcome, spent_s: float) -> None:
            searched.gpu_s = spent_s
            if keeps and log is not None:
                log.append([outcome])
            self.show(_tune_status("searching", task, spent_s, self.budget_s))

        kept_s = min(_RACE_SHARE * self.budget_s, _RACE_S)
        try:
            with span("search"):
                drive_bench(bench, [task], self.budget_s - kept_s, heard=heard, spent_s=earlier_s)
            searched.stopped = task.stopped or Stopped.BUDGET
            with span("race"):
                race_contenders(bench, task, self.budget_s - spent(), heard=heard, spent_s=spent())
        except KeyboardInterrupt:
            searched.stopped = Stopped.INTERRUPTED
            bench.discard()
        searched.gpu_s = max(searched.gpu_s, spent())
        return searched

    def _resume_from_log(
        self, task: TuningProblem, ground: TuningContext, log: TuneLog | None
    ) -> float:
        """Tell the task what the log's run measured; the GPU seconds that this took."""
        if log is None or not self.how.resume:
            return 0.0
        spent_s = 0.0
        for row in outcomelog.read(log.path).rows:
            if row.run_id != log.run_id or row.comparison is not None or not ground.holds(row):
                continue
            spent_s = max(spent_s, float(row.extra.get(SPENT, 0.0)))
            configuration = replace(ground.default, params=row.params, chosen_by=row.chosen_by)
            task.tell(configuration, row, spent_s)
        return spent_s

    def _conclude_run(
        self,
        searched: SearchOutcome,
        ground: TuningContext,
        device: Device,
        judge: Judge,
        log: OutcomeLog | None,
        notes: Sequence[str],
    ) -> Tuned:
        """Return the result, after the final."""
        from solkit.tuner.head_to_head import judge_best

        task, begun_s = searched.task, time.monotonic()
        notes = [*ground.notes, *notes, *filter(None, [searched.note])]
        last: Final | None = None
        self.show(_tune_status("final", task, searched.gpu_s, self.budget_s))
        try:
            with span("final"):
                last = judge_best(task, judge)
        except KeyboardInterrupt:
            notes.append("The final was interrupted: nothing shows that the best is faster.")
        except SolkitError as error:
            notes.append(f"The final could not be run: {error}")
        final_s = time.monotonic() - begun_s
        if log is not None and last is not None:
            log.append([_decision_of_run(task, last)])
        if self.how.database is not None:
            notes += filter(None, [keep_in_database(self.how.database, log)])
        return tuned_result(searched, ground, device, last, log, notes, final_s)


@dataclass
class SearchOutcome:
    """A task whose search is over."""

    task: TuningProblem
    gpu_s: float
    stopped: Stopped = Stopped.BUDGET
    note: str = ""  # what limits it


def _decision_of_run(task: TuningProblem, last: Final) -> Outcome:
    """Return the row that tells readers of the log what the final showed."""
    from solkit.tuner.tuning_results import decision_row

    rival = next(e for e in task.ranked() if e.configuration.params == last.params)
    assert task.incumbent is not None
    return decision_row(rival.outcomes[-1], task.incumbent.outcomes[-1], last)


def _tune_status(stage: str, task: TuningProblem, gpu_s: float, budget_s: float) -> TuneStatus:
    best = task.best
    return TuneStatus(
        stage=stage,
        gpu_s=gpu_s,
        budget_s=budget_s,
        measured=task.measured,
        failed=task.failed,
        best_ms=None if best is None else best.time_ms,
        gap=task.gap,
        expected_gain=finite_or_none(task.expected_gain()),
    )


def _in_new_process(bench: TrustedBench, base: Configuration, rival: Configuration) -> Final:
    """Time two in turns in a new process, on other inputs than the search's."""
    from solkit.tuner.head_to_head import head_to_head

    bench.renew(_FINAL_SEED)
    return head_to_head(bench, base, rival)


def _load_for_final(gpu: Device, settings: MeasureSettings, ground: TuningContext) -> None:
    """Load torch for the final's processes while the search runs, without the GPU."""
    from solkit.measure.benches.guarded import open_session

    paths = [ground.default.path, ground.default.reference or ground.default.path]

    def load() -> None:
        with contextlib.suppress(SolkitError), open_session(gpu, settings) as session:
            session.load(paths)

    threading.Thread(target=load, name="solkit-loading", daemon=True).start()


def guarded_final(
    gpu: Device,
    settings: MeasureSettings,
    base: Configuration,
    rival: Configuration,
    *,
    searched: bool = False,
) -> Final:
    """Compare two on the guarded bench: each in a new process, on fresh inputs in every turn.

    If a search of the user's own file has `searched` both, neither is timed on its own first.
    """
    from solkit.pipeline.comparing import compare, compare_in_turns

    if searched:
        report = compare_in_turns(base, rival, gpu, settings)
    else:
        report = compare(
            base.path,
            rival.path,
            device=gpu,
            reference=base.reference,
            shapes=[base.shape],
            base_params=base.params,
            params=rival.params,
            settings=settings,
        )
    if not report.comparisons:
        why = tuple(failure.error for failure in report.failed)
        return Final(rival.params, Difference.NOT_COMPARED, None, "guarded", why)
    (comparison,) = report.comparisons
    sides = (comparison.base, comparison.candidate)
    reasons = [error for side in sides if side.verdict.is_failure for error in side.errors]
    evidence = *comparison.errors, *reasons
    return Final(rival.params, comparison.difference, comparison.ratio, "guarded", evidence)


_VERSIONS = ("solkit", "python", "torch", "triton", "cuda", "driver")


def _recorded_with(tuned: Tuned, rows: Iterable[Outcome]) -> dict[str, str | None]:
    """Return the versions with which the best parameters were recorded, not this machine's."""
    best = tuned.best or tuned.default
    key = canonical(tuned.shape), canonical(best.params)
    mine = [row for row in rows if (canonical(row.shape), canonical(row.params)) == key]
    return {
        name: next((version for row in mine if (version := getattr(row, f"{name}_version"))), None)
        for name in _VERSIONS
    }


def tuned_result(
    searched: SearchOutcome,
    ground: TuningContext,
    device: Device,
    last: Final | None,
    log: OutcomeLog | None,
    notes: list[str],
    final_s: float,
) -> Tuned:
    """Return the result of a search and its final."""
    task = searched.task
    best, incumbent = task.choice, task.incumbent
    default = TimedParams(task.default.params) if incumbent is None else incumbent.timed_params()
    is_faster = last is not None and last.difference is Difference.FASTER
    if last is not None and is_faster:
        best = next(e for e in task.ranked() if e.configuration.params == last.params)
    if best is not None and default.time_ms is None:
        why = default.message or "it was not measured"
        notes.append(f"The parameters in use fail: {why}")
    if task.common_failure is not None:
        notes.append(task.common_failure.note)
    fails = incumbent is not None and default.time_ms is None and best is not None
    verdict = TuneVerdict.FASTER if is_faster or fails else TuneVerdict.KEEP
    return Tuned(
        kernel=ground.name,
        kernel_id=ground.kernel_id,
        problem_id=ground.problem_id,
        shape=ground.shape,
        device=device.key,
        sol_ms=task.sol_ms,
        default=default,
        best=None if best is None else best.timed_params(),
        verdict=verdict,
        final=last,
        measured=task.measured,
        failed=task.failed,
        gpu_s=searched.gpu_s,
        final_s=final_s,
        stopped=searched.stopped,
        trajectory=tuple(task.trajectory),
        expected_gain=finite_or_none(task.expected_gain()),
        better_chance=finite_or_none(task.better_chance()),
        equals=tuple(trial.timed_params() for trial in task.equals() if trial is not best),
        log=None if log is None else str(log.path),
        notes=tuple(notes),
        environment=environment(),
        **_conditions(incumbent),
    )


def _conditions(incumbent: TrialSummary | None) -> dict[str, str | None]:
    """Return what the configuration in use was launched by, and the state of L2 before."""
    last = None if incumbent is None else incumbent.outcomes[-1]
    return {} if last is None else {"launched": last.launched, "l2": last.l2}
