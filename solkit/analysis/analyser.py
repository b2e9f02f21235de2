"""Analysis in bulk: a long-lived analyser of kernel files for one device, without a GPU.

The caller's process needs no torch. Workers on all cores (`solkit.analysis.pool`) trace, capture
and compile. Their answers are cached on disk by content (`solkit.analysis.cache`).
"""

from __future__ import annotations

import functools
import hashlib
import queue
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from solkit.adapters.compilers import Compiler
from solkit.analysis.cache import Cache, default_folder
from solkit.analysis.dependencies import Stamp, Stamps, stamp_of_file, surroundings
from solkit.analysis.pool import Answer, PendingAnswer, Pool, Request, Source, usable_cores
from solkit.core import (
    Analysis,
    Case,
    Configuration,
    Depth,
    Device,
    KernelFile,
    PlanStudy,
    Value,
    Verdict,
    canonical,
)
from solkit.errors import SolkitError, UnsupportedError
from solkit.processes.host import is_machine_fault
from solkit.processes.jobs import Jobs, SandboxedJobs, shared_jobs
from solkit.roofline.calibration import calibrated
from solkit.roofline.devices import find

_LIMIT_S = 180.0
_TIMED_OUT = Verdict.TIMED_OUT.value  # depends on the machine and the limit, so is not kept
_METHODS = {Depth.CAPTURED: "capture", Depth.LOWERED: "lower", Depth.COMPILED: "analyse"}
_TOGETHER = {"capture": 64, "lower": 8, "analyse": 8, "compile": 8}
_COMPILING = ("lower", "analyse", "compile", "compile_listed")
_UNKEPT = ("capture", "compile", "compile_listed")
"""Methods whose answers are not on disk: a group's are kept as one; Triton's cache has the kernels,
and may be emptied."""
_FIRST = ("problem", "analyse", "compile")
"""Methods for which a measurement may wait; others say what comes later."""
_RANKING = ("points", "capture", "lower")
"""Methods that rank what may be measured later."""
_Group = tuple[list[Configuration], str, dict[str, Stamp]]
"""Configurations of one file at one shape, with the cache's key of all and the file's stamps."""
_AHEAD = 2 * max(_TOGETHER.values())  # requests per worker in the queue, so that none runs dry
T = TypeVar("T")


@dataclass(frozen=True)
class Analysed:
    """The result for one configuration.

    Attributes:
        configuration: as submitted.
        analysis: ``None`` if it failed.
        error: why it failed: `InputError` if the file or a parameter is at fault, `JobDiedError` if
            it ended or hung its worker, another `WorkerError` if SolKit is at fault.
        seconds: worker time; 0 from the cache.
    """

    configuration: Configuration
    analysis: Analysis | None = None
    error: SolkitError | None = None
    seconds: float = 0.0


class Analyser:
    """Analyses configurations of kernel files for a device, on all cores, in a ``with`` block.

    Several threads may use it. Results from before, even of other processes, come from disk
    and start no process. They are valid while the kernel file, the files that it reads, SolKit,
    torch and Triton are unchanged.

    ::

        with Analyser("h100") as analyser:
            for result in analyser.analysed(configurations):
                print(result.configuration.params, result.analysis or result.error)

    Args:
        device: a device, or a name from the catalogue; a name takes calibrated rates if there are
            any.
        workers: processes at once; one per core by default.
        cache: the cache's folder; ``True`` for `default_folder`, ``False`` for no cache.
        sandbox: whether kernel files run under bubblewrap.
        limit_s: seconds that one configuration may take.
        run_limit_s: seconds of these that the candidate's own code may run; ``None`` for all.
            Importing its file may take twice as long.
        env: environment variables of the workers, in addition to the caller's.
        compiler: the Triton that compiles; this environment's by default.

    Raises:
        UnknownDeviceError: no such device.
        UnsupportedError: this machine cannot run a sandbox, or another Triton in one.
    """

    def __init__(
        self,
        device: Device | str,
        *,
        workers: int | None = None,
        cache: Path | bool = True,
        sandbox: bool = False,
        limit_s: float = _LIMIT_S,
        run_limit_s: float | None = None,
        env: Mapping[str, str] | None = None,
        compiler: Compiler | None = None,
    ) -> None:
        own = compiler is None or compiler.python.is_own
        if sandbox and not own:
            raise UnsupportedError("a sandbox shows this environment's Triton, and no other")
        self.device = calibrated(find(device)) if isinstance(device, str) else device
        self.limit_s, self.run_limit_s = limit_s, run_limit_s
        self._jobs: Jobs = SandboxedJobs() if sandbox else shared_jobs()
        if compiler is not None and not own:
            self._jobs = Jobs(python=compiler.python)
        self._workers = workers or usable_cores()
        self._pool = Pool(self.device, self._jobs, self._workers, env)
        folder = cache if isinstance(cache, Path) else default_folder() if cache else None
        self._cache = Cache(folder)
        rests_on = (surroundings(), self.device, sorted((env or {}).items()))
        other = () if compiler is None or own else (compiler.identity,)
        self._rests_on = repr((*rests_on, *other))

    def __enter__(self) -> Analyser:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cancel what waits and end all workers."""
        self._pool.close()
        if self._jobs is not shared_jobs():
            self._jobs.close()

    def give_up_rankings(self) -> None:
        """Cancel what was asked only to rank candidates: who waits for that gets an error."""
        self._pool.give_up(_RANKING)

    def start(self) -> None:
        """Start loading torch for the workers; returns at once."""
        self._jobs.start()

    # ---------------------------------------------------------------------- configurations

    def submit(
        self, configuration: Configuration, depth: Depth = Depth.COMPILED
    ) -> Future[Analysed]:
        """Analyse a configuration.

        Args:
            configuration: what to analyse.
            depth: how deeply. Captured results are not kept one by one: see `captured`.

        Returns:
            The result, which may be a failure.
        """
        return self._submit_from(
            Source.here(configuration.path, configuration.reference), configuration, depth
        )

    def _submit_from(
        self,
        source: Source,
        configuration: Configuration,
        depth: Depth,
        read: dict[int, Stamps] | None = None,
        goes_first: bool = False,
    ) -> Future[Analysed]:
        """Submit a configuration; `read` gets its worker's stamps, by its identity."""

        def converted(answer: Answer | SolkitError) -> Analysed:
            if isinstance(answer, SolkitError):
                return Analysed(configuration, error=answer)
            if read is not None:
                read[id(configuration)] = answer.stamps
            return Analysed(configuration, answer.value, seconds=answer.seconds)

        args = dict(configuration.shape), dict(configuration.params)
        method = _METHODS[depth]
        return self._ask_from(source, method, args, converted, goes_first or method in _FIRST)

    def analysed(
        self, configurations: Iterable[Configuration], depth: Depth = Depth.COMPILED
    ) -> Iterator[Analysed]:
        """Analyse configurations; yields each result as soon as it is ready, in any order.

        There may be endlessly many: only as many are taken as keep the workers busy. Leaving the
        iterator gives up what was begun.

        Args:
            configurations: what to analyse.
            depth: as for `submit`.
        """
        done: queue.SimpleQueue[Future[Analysed]] = queue.SimpleQueue()
        pending: set[Future[Analysed]] = set()
        source_of = functools.cache(Source.here)  # it reads the whole environment
        try:
            for configuration in configurations:
                source = source_of(configuration.path, configuration.reference)
                future = self._submit_from(source, configuration, depth)
                pending.add(future)
                future.add_done_callback(done.put)
                while not done.empty() or len(pending) > _AHEAD * self._workers:
                    yield _taken(done, pending)
            while pending:
                yield _taken(done, pending)
        finally:
            for future in pending:
                future.cancel()

    def captured(self, configurations: Sequence[Configuration]) -> list[Analysed]:
        """Capture configurations; returns the results in their order.

        If none fails they are kept on disk, those of a file at a shape as one entry: asked again,
        no process has to load torch. To read them one by one would take as long as to capture them.
        """
        groups: defaultdict[tuple[object, ...], list[Configuration]] = defaultdict(list)
        for configuration in configurations:
            shape = canonical(configuration.shape)
            groups[configuration.path, configuration.reference, shape].append(configuration)
        entries = [(group, *self._captured_entry(group)) for group in groups.values()]
        cached = [self._cache.get(key) for _, key, _ in entries]
        missing = [entry for entry, answers in zip(entries, cached, strict=True) if answers is None]
        results = self._captured_together(missing)
        for (group, _, _), answers in zip(entries, cached, strict=True):
            results += map(Analysed, group, answers or ())
        by_configuration = {id(result.configuration): result for result in results}
        return [by_configuration[id(configuration)] for configuration in configurations]

    def _captured_entry(self, group: Sequence[Configuration]) -> tuple[str, dict[str, Stamp]]:
        """Return the cache's key of configurations of one file at one shape, and its stamps."""
        source = Source.here(group[0].path, group[0].reference)
        args = dict(group[0].shape), tuple(canonical(one.params) for one in group)
        return self._entry(source, "captured", args)

    def _captured_together(self, groups: Sequence[_Group]) -> list[Analysed]:
        """Capture the configurations of groups, all at a time, and keep each group's answers."""
        configurations = [one for group, _, _ in groups for one in group]
        source_of = functools.cache(Source.here)
        read: dict[int, Stamps] = {}
        is_alone = len(configurations) == 1  # a measurement may wait for it: a ranking has many
        with self._pool.filling():
            futures = [
                self._submit_from(
                    source_of(one.path, one.reference), one, Depth.CAPTURED, read, is_alone
                )
                for one in configurations
            ]
        try:
            results = [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()
        answers = {id(result.configuration): result.analysis for result in results}
        for group, key, stamps in groups:
            values = [answers[id(configuration)] for configuration in group]
            if all(value is not None and value.failure != _TIMED_OUT for value in values):
                stamps_read = {id(read[id(one)]): read[id(one)] for one in group}.values()
                self._keep(key, values, functools.reduce(Stamps.and_, stamps_read), stamps)
        return results

    def compile(self, configuration: Configuration) -> Future[None]:
        """Compile what a configuration launches into Triton's cache, for a measurement.

        That takes about half of what analysing it takes. Triton kernels that do not compile are no
        error: launching them says why.

        Returns:
            When that is done; or an error, as for `problem`.
        """
        return self._ask_about(configuration, "compile")

    def compile_listed(self, configuration: Configuration) -> Future[None]:
        """As `compile`, but all configurations that its autotuners would time at the shape.

        Those that their own pruning leaves out are not compiled.
        """
        return self._ask_about(configuration, "compile_listed")

    # ------------------------------------------------------------------------------- files

    def describe(self, path: str, reference: str | None = None) -> Future[KernelFile]:
        """Return a kernel file's problem and candidate.

        Args:
            path: the file with the candidate, or only a reference; or a problem folder.
            reference: the file with the reference, if `path` lacks one.

        Returns:
            The file; or `KernelFileError` if it cannot be used, `JobDiedError` if it ends or hangs
            its worker.
        """
        return self._ask(path, reference, "describe", ())

    def problem(
        self,
        path: str,
        reference: str | None,
        shape: Mapping[str, Value],
        params: Mapping[str, Value] | None = None,
        groups: str | None = None,
    ) -> Future[Case]:
        """Return the problem's side of one shape: work, tolerance and outputs, without an analysis.

        Args:
            path: as for `describe`.
            reference: as for `describe`.
            shape: sizes to override.
            params: of the candidate; used if the file has no reference.
            groups: as for `solkit.pipeline.fusion`; ``None`` leaves fusion out.

        Returns:
            The case; or `InputError` or `JobDiedError`, as for `describe`.
        """
        args = dict(shape), dict(params or {}), groups
        return self._ask(path, reference, "problem", args)

    def points(
        self, path: str, reference: str | None, shape: Mapping[str, Value], most: int, seed: int = 0
    ) -> Future[list[Mapping[str, Value]]]:
        """Return what a candidate's parameters may be at a shape.

        Args:
            path: as for `describe`.
            reference: as for `describe`.
            shape: sizes to override.
            most: how many besides the candidate's own.
            seed: of the draw, if there are more.

        Returns:
            All parameters of each, the candidate's own first; or an error, as for `problem`.
        """
        return self._ask(path, reference, "points", (dict(shape), most, seed))

    def launch_identity(self, configuration: Configuration) -> Future[str]:
        """Return a text that two configurations share if the GPU is asked for the same by both.

        Returns:
            The text, empty if not all is seen; or an error, as for `problem`.
        """
        return self._ask_about(configuration, "launch_identity")

    def input_layouts(
        self, configuration: Configuration
    ) -> Future[Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]]:
        """Return shapes and strides of the tensors that a configuration's function gets.

        Returns:
            Both by parameter, in elements; or an error, as for `problem`.
        """
        return self._ask_about(configuration, "input_layouts")

    def plan(
        self, path: str, reference: str | None, shape: Mapping[str, Value], limit_s: float
    ) -> PlanStudy:
        """Return the best algorithm of a file's problem at a shape; waits for it.

        Args:
            path: as for `describe`.
            reference: as for `describe`.
            shape: sizes to override.
            limit_s: seconds that the search may take.

        Raises:
            SolkitError: as `Jobs.call`; it is not kept.
        """
        source = Source.here(path, reference)
        key, stamps = self._entry(source, "plan", (dict(shape),))
        plan: PlanStudy | None = self._cache.get(key)
        if plan is None:
            plan, read = self._jobs.call(
                "solkit.analysis.best_study:best_study",
                *(path, reference, self.device, dict(shape)),
                timeout_s=limit_s,
                shown=source.files,
            )
            self._keep(key, plan, Stamps.of(read), stamps)
        return plan

    # ------------------------------------------------------------------------------- steps

    def _ask_about(self, configuration: Configuration, method: str) -> Future[Any]:
        """Return the answer to a request about a configuration."""
        args = dict(configuration.shape), dict(configuration.params)
        return self._ask(configuration.path, configuration.reference, method, args)

    def _ask(
        self, path: str, reference: str | None, method: str, args: tuple[Any, ...]
    ) -> Future[Any]:
        """Return the answer to a request about a file in the present surroundings."""
        source = Source.here(path, reference)
        return self._ask_from(source, method, args, _value, method in _FIRST)

    def _ask_from(
        self,
        source: Source,
        method: str,
        args: tuple[Any, ...],
        convert: Callable[[Answer | SolkitError], T],
        goes_first: bool,
    ) -> Future[T]:
        """Return the answer to a request, from disk or a worker, as `convert` converts it."""
        future: PendingAnswer[T] = PendingAnswer()
        how = _TOGETHER.get(method, 1), method in _COMPILING, self.run_limit_s, goes_first
        limit_s = self.limit_s
        if method == "describe" and self.run_limit_s is not None:  # it runs the candidate's file
            limit_s = min(limit_s, 2 * self.run_limit_s)
        request = Request(method, args, limit_s, *how)
        if method in _UNKEPT:
            self._pool.submit(source, request, future, convert)
            return future
        key, stamps = self._entry(source, method, args)
        cached = self._cache.get(key)
        if cached is not None:
            future.set_result(convert(Answer(cached, 0.0, Stamps({}, {}))))
            return future

        def keep_and_tell(answer: Answer | SolkitError) -> T:
            if isinstance(answer, Answer) and (why := _machine_fault(answer.value)):
                return convert(UnsupportedError(f"this machine cannot compile the kernels: {why}"))
            if isinstance(answer, Answer) and getattr(answer.value, "failure", "") != _TIMED_OUT:
                self._keep(key, answer.value, answer.stamps, stamps)
            return convert(answer)

        self._pool.submit(source, request, future, keep_and_tell)
        return future

    def _keep(self, key: str, answer: Any, read: Stamps, stamps: Mapping[str, Stamp]) -> None:
        """Keep an answer, unless the file has changed between being asked about and being read.

        Args:
            key: of the answer.
            answer: SolKit's nouns and plain values.
            read: stamps of the files that workers read for it.
            stamps: those of the kernel's files when they were asked about.
        """
        if all(read.get(file, now) == now for file, now in stamps.items()):
            others = {file: now for file, now in stamps.items() if file not in read}
            self._cache.put(key, answer, read.and_(others))

    def _entry(
        self, source: Source, method: str, args: tuple[Any, ...]
    ) -> tuple[str, dict[str, Stamp]]:
        """Return the cache's key of a request, and the present stamps of the kernel's files."""
        files = [str(Path(file).absolute()) for file in source.files]
        stamps = {file: stamp_of_file(file) for file in files}
        plain = [canonical(arg) if isinstance(arg, dict) else arg for arg in args]
        digests = [self._cache.files.digest(file) for file in files]
        names = source.path, source.reference, files
        content = repr((self._rests_on, *names, digests, method, plain))
        return hashlib.sha256(content.encode()).hexdigest(), stamps


def _taken(done: queue.SimpleQueue[Future[T]], pending: set[Future[T]]) -> T:
    future = done.get()
    pending.discard(future)
    return future.result()


def _value(answer: Answer | SolkitError) -> Any:
    if isinstance(answer, SolkitError):
        raise answer
    return answer.value


def _machine_fault(answer: Any) -> str:
    """Say why a compile failed, if that was because the disk was full, say."""
    kernels = answer.kernels if isinstance(answer, Analysis) else ()
    return (
        next((kernel.error for kernel in kernels if is_machine_fault(kernel.error or "")), "") or ""
    )
