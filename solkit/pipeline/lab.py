"""A long-lived session for search loops: candidates in, all that is known of each out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import islice

from solkit.analysis.pool import AwaitedFutures, usable_cores
from solkit.core import Analysis, Bound, Configuration, Device, MeasureSettings, Outcome
from solkit.datasets.outcomelog import OutcomeLog
from solkit.errors import InputError, UnsupportedError
from solkit.measure.benches import Bench
from solkit.measure.benches.guarded import GuardedBench
from solkit.measure.benches.locked import SharedBench
from solkit.measure.outcomes import PreparedCandidate, score_result
from solkit.pipeline.environment import environment
from solkit.pipeline.evaluation import Evaluation, Given, Text
from solkit.pipeline.preparing import Preparation, Studied, Values
from solkit.pipeline.target import target_device
from solkit.processes.forkserver import close_servers
from solkit.roofline.calibration import calibrated


class Lab:
    """Bounds, analyses and measures candidates, one after the other or many at once.

    It serves searches, and models that write kernels. Processes stay warm between candidates, and
    measurements are logged (docs/logs.md). Without a GPU everything works except measuring. A Lab
    may be used from several threads. Ctrl-C ends the call that it interrupts, with its measurement;
    the Lab stays usable::

        with solkit.Lab() as lab:
            print(lab.bound(problem).time_ms)
            for evaluation in lab.evaluate_all(candidates, problem):
                print(evaluation.verdict, evaluation.time_ms)

    Candidates and problems are kernel files (docs/kernel_files.md), given as a path or as source
    text, which is recognised by its line breaks. Texts are written to a private folder, which the
    Lab removes when it closes; the log keeps them.

    Args:
        device: the target; by default the GPU of this machine, else an H100.
        on: the GPU of this machine to measure on, such as ``"cuda:1"``.
        settings: how to measure; `MeasureSettings.log` names the log. `MeasureSettings.sandbox`
            isolates the code of candidates during analysis too.
        bench: measures instead of this machine's GPU, e.g.
            `solkit.measure.benches.RecordedBench`.

    Attributes:
        device: the target.

    Raises:
        InputError: a device or a setting is invalid, or counters are requested.
        UnsupportedError: this machine cannot run the sandbox.
    """

    def __init__(
        self,
        device: str | Device | None = None,
        on: str | None = None,
        settings: MeasureSettings | None = None,
        *,
        bench: Bench | None = None,
    ) -> None:
        how = settings or MeasureSettings()
        self._how = how if on is None else replace(how, on=on)
        if self._how.counters:
            raise InputError("counters: a Lab takes none; `solkit score --ncu` does")
        self.device = (
            target_device(device, self._how) if bench is None else calibrated(bench.device)
        )
        self._prospects: dict[int, PreparedCandidate] = {}
        with contextlib.ExitStack() as stack:
            preparation = Preparation(self.device, self._how)
            self._prepared = stack.enter_context(contextlib.closing(preparation))
            if bench is None and self.device.source == "nvml":
                log = stack.enter_context(OutcomeLog(self._how.log, {"what": "solkit.Lab"}))
                bench = stack.enter_context(self._guarded_bench(log))
            self._bench = None if bench is None else SharedBench(bench)
            self._stack = stack.pop_all()

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes, release the GPU and remove the private folder."""
        self._stack.close()

    def bound(self, problem: Text, shape: Values | None = None) -> Bound:
        """Return the speed of light of a problem.

        Args:
            problem: a kernel file with a reference.
            shape: sizes to override; the file's first shape otherwise.

        Raises:
            InputError: the file or the shape is invalid.
        """
        return self._prepared.bound(problem, shape)

    def analyse(
        self,
        candidate: Given,
        problem: Text | None = None,
        *,
        shape: Values | None = None,
        params: Values | None = None,
    ) -> Analysis:
        """Return what a candidate launches and what that compiles to, without a GPU.

        Args:
            candidate: a kernel file; or a `solkit.core.Configuration` of one, which may have its
                own reference, shape and parameters.
            problem: the file with the reference, if the candidate's has none.
            shape: sizes to override; the problem's first shape otherwise.
            params: the candidate's parameters to override.

        Raises:
            InputError: a file, the shape or a parameter is invalid.
        """
        return self._prepared.analysed(candidate, problem, shape, params)[1].result.analysis

    def measure(
        self,
        candidate: Given,
        problem: Text | None = None,
        *,
        shape: Values | None = None,
        params: Values | None = None,
    ) -> Outcome:
        """Check a candidate and time it; its outcome is in the log when this returns.

        Arguments as for `analyse`.

        Raises:
            InputError: as for `analyse`.
            UnsupportedError: there is no bench, or the problem has no reference.
            GpuBusyError: another SolKit holds the GPU.
            WorkerError: SolKit's own part failed.
        """
        prepared = self._prepared.analysed(candidate, problem, shape, params)
        future = self._submit_prepared(*prepared)
        try:
            return self._shared_bench().wait_for_first([future]).result()
        finally:
            self._prospects.pop(id(prepared[0]), None)

    def evaluate(
        self,
        candidate: Given,
        problem: Text | None = None,
        *,
        shape: Values | None = None,
        params: Values | None = None,
    ) -> Evaluation:
        """Bound, analysis and outcome in one record; an unusable candidate has one too.

        Arguments as for `analyse`.

        Raises:
            GpuBusyError, TraceError, WorkerError: as for `measure`.
        """
        (evaluation,) = self.evaluate_all([candidate], problem, shape=shape, params=params)
        return evaluation

    def evaluate_all(
        self,
        candidates: Iterable[Given],
        problem: Text | None = None,
        *,
        shape: Values | None = None,
        params: Values | None = None,
    ) -> Iterator[Evaluation]:
        """Evaluate candidates, each given as soon as it is ready, in any order.

        The next ones are analysed, on all cores, while one is measured. `candidates` may be
        endless: they are taken as needed. Leaving the iterator drops what it began. Arguments as
        for `analyse`.

        Raises:
            GpuBusyError, TraceError, WorkerError: as for `measure`.
        """
        remaining, width = iter(candidates), usable_cores() + 1
        studying: set[Future[Studied]] = set()
        begun = AwaitedFutures()
        study = self._prepared.study_candidate
        measuring: dict[Future[Outcome], Evaluation] = {}
        pool = ThreadPoolExecutor(width, thread_name_prefix="solkit-lab")
        try:
            while True:
                room = width - len(studying) if len(measuring) < 2 * width else 0
                for candidate in islice(remaining, room):
                    studying.add(pool.submit(study, candidate, problem, shape, params, begun))
                if not studying and not measuring:
                    return
                for job in _take_finished(studying, wait_for_one=not measuring):
                    evaluation, prospect = job.result()
                    evaluation, future = self._begin_measuring(evaluation, prospect)
                    if future is None:
                        yield evaluation
                    else:
                        measuring[future] = evaluation
                if measuring:
                    future = self._shared_bench().wait_for_first(measuring)
                    yield self._finish_evaluation(measuring.pop(future), future)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            begun.give_up()
            if measuring:
                self._shared_bench().withdraw(measuring)
            for evaluation in measuring.values():
                self._prospects.pop(id(evaluation.configuration), None)

    def _guarded_bench(self, log: OutcomeLog) -> GuardedBench:
        def prospect(configuration: Configuration) -> PreparedCandidate:
            return self._prospects[id(configuration)]

        return GuardedBench(self.device, prospect, log, self._how, environment())

    def _begin_measuring(
        self, evaluation: Evaluation, prospect: PreparedCandidate | None
    ) -> tuple[Evaluation, Future[Outcome] | None]:
        """Return the future outcome; ``None``, perhaps with the reason, if there will be none."""
        if self._bench is None or prospect is None or evaluation.configuration is None:
            return evaluation, None
        try:
            return evaluation, self._submit_prepared(evaluation.configuration, prospect)
        except UnsupportedError as error:
            return replace(evaluation, error=error), None

    def _shared_bench(self) -> SharedBench:
        """Return the bench; raises `UnsupportedError` if there is none."""
        if self._bench is None:
            raise UnsupportedError(
                f"cannot measure on {self.device.name}: it is not in this machine"
            )
        return self._bench

    def _submit_prepared(
        self, configuration: Configuration, prospect: PreparedCandidate
    ) -> Future[Outcome]:
        bench = self._shared_bench()
        if prospect.file.problem.reference is None:
            raise UnsupportedError(f"cannot measure {configuration.path}: it has no reference")
        self._prospects[id(configuration)] = prospect
        return bench.submit(configuration)

    def _finish_evaluation(self, evaluation: Evaluation, future: Future[Outcome]) -> Evaluation:
        self._prospects.pop(id(evaluation.configuration), None)
        error = future.exception()
        if isinstance(error, InputError):  # e.g. it is not recorded
            return replace(evaluation, error=error)
        assert evaluation.result is not None
        outcome = future.result()
        return replace(
            evaluation,
            outcome=outcome,
            result=score_result(evaluation.result, outcome, self.device),
        )


def close() -> None:
    """End the processes that SolKit keeps, with torch loaded, until the program ends.

    They make the next call fast, and hold torch's memory; that call starts them again. Close Labs
    and benches first: what still runs in one of these processes ends as if it had been killed.
    """
    close_servers()


def _take_finished(jobs: set[Future[Studied]], wait_for_one: bool) -> set[Future[Studied]]:
    """Remove the finished jobs, and return them."""
    finished = wait(jobs, timeout=None if wait_for_one else 0, return_when=FIRST_COMPLETED).done
    jobs -= finished
    return finished
