"""Searching variants of a kernel under a budget of GPU seconds.

::

    original ─► measured, ranked ─► proposals ─► ranked ─► measured ─► ... ─► finalists
                                                                                  │
    practice: finalists beside the original at further shapes; the one that holds is taken
                                                                                  │
    gate: it meets the original, in new processes, on inputs and shapes that were never used

Candidates are checked and timed on the guarded bench, or looked up in a recording. What proposers
write is trusted nowhere. A search that began from a reference alone has `torch.compile` itself at
the gate.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solkit.analysis.pool import usable_cores
from solkit.core import (
    Checked,
    Depth,
    Device,
    Evolved,
    EvolveSettings,
    EvolveStatus,
    Gate,
    MeasureSettings,
    Stopped,
    TimedParams,
    TuneVerdict,
)
from solkit.core.quantities import duration
from solkit.datasets import outcomelog
from solkit.datasets.kernels import kernel_of_file
from solkit.errors import (
    InputError,
    SolkitError,
    UnsupportedError,
)
from solkit.measure.benches import Bench, RecordedBench
from solkit.pipeline.best_algorithm import best, planned_reference
from solkit.pipeline.compiled_parents import INDUCTORS_IMPORTS, CompiledParents, Written
from solkit.pipeline.compiling import first_parent
from solkit.pipeline.environment import environment
from solkit.pipeline.evolve_log import LINEAGE, EvolveLog, variant_of
from solkit.pipeline.evolve_original import Original
from solkit.pipeline.evolve_selection import Selection
from solkit.pipeline.kernel_evaluator import Advise, Check, KernelEvaluator, leave_unchecked
from solkit.pipeline.measuring import prepared_session
from solkit.pipeline.practice import SIZE_GUARD, Practice
from solkit.pipeline.preparing import Preparation
from solkit.pipeline.shipped_surrogate import shipped_model
from solkit.pipeline.studying import Shape
from solkit.pipeline.target import target_device
from solkit.roofline.calibration import calibrated
from solkit.spans import span

if TYPE_CHECKING:
    from solkit.measure.guarded.session import Session
    from solkit.surrogate.model import Surrogate
    from solkit.tuner.evolution.acquisition import Point
    from solkit.tuner.evolution.evolution_search import EvolutionSearch
    from solkit.tuner.interpreter_check import Checkers
    from solkit.tuner.proposers import Proposer

Show = Callable[[EvolveStatus], None]

_COMPILE_SHARE, _LEAST_COMPILE_S, _MOST_COMPILE_S = 1.0, 20.0, 60.0
"""Share of the budget, in wall seconds, for compiling one candidate: the GPU may wait for it. One
that takes longer has tiles that do not fit: compiling what users write takes 1 to 5 s."""

_LOADING_CORES = 4  # so that three processes load torch at a time without delay
_CORES_PER_HELPER, _MOST_HELPERS = 4, 4
"""Cores for each process that helps to write variants, and how many help at the most."""
_CHECKS_SHARE, _LEAST_CHECKS_S = 0.05, 1.0
"""Share of the budget for the checks of one candidate on further inputs: large problems' take
half a minute. The gate has no such limit."""
_CANDIDATE_SHARE, _LEAST_CANDIDATE_S = 0.5, 20.0
"""Share of the budget for one candidate in the search, which is compiled before. One that spilled
took all of 45 s in a search of 20."""


@dataclass(frozen=True)
class EvolveParts:
    """Parts of a search over variants, besides the bench.

    Attributes:
        proposers: what writes variants; ``None`` for the rewriter, which needs no language model.
            Without any, a kernel's reference is compiled, too (`EvolveSettings.compiled`). A
            reference alone is also compiled under other settings of Inductor, whatever these are.
        check: tells right sources from wrong ones without a GPU, with the reason; by default
            Triton's interpreter runs them, unless the bench is a recording.
        advise: gives advice on a result, for the brief.
        surrogate: ranks; the shipped one by default. Without any, the kernel model does.
        show: receives how far the search is.
    """

    proposers: Sequence[Proposer] | None = None
    check: Check | None = None
    advise: Advise = lambda *_: ()
    surrogate: Surrogate | None = None
    show: Show = lambda _: None


def evolve(
    path: str | os.PathLike[str],
    *,
    gpu_seconds: float = 120.0,
    device: str | Device | None = None,
    reference: str | os.PathLike[str] | None = None,
    shape: Shape | None = None,
    bench: Bench | None = None,
    settings: EvolveSettings | None = None,
    parts: EvolveParts | None = None,
) -> Evolved:
    """Search variants of a kernel for faster ones, under a budget of GPU seconds.

    The original is measured first. Proposals are ranked by the surrogate; only the promising reach
    the GPU, each in its own process beside a referee. Of the best, the fastest that is not slower
    at practice shapes meets the original at the gate: on fresh inputs in new processes, and at
    shapes that were never used. If it does not hold there, the original is the result. An interrupt
    (Ctrl-C) ends the search; practice and gate still run, unless they are interrupted as well.

    Args:
        path: the kernel file. If it holds only a reference, the search starts from what
            `torch.compile` would run (`solkit.pipeline.compiling.first_parent`), and meets it.
        gpu_seconds: for the search and the practice. The gate comes after them.
        device: the GPU of this machine; by default the first.
        reference: the file with the reference, if `path` lacks one; or the problem folder or
            definition that `path` is a solution for.
        shape: sizes to override; the file's first shape by default.
        bench: measures instead of this machine's GPU: a `solkit.measure.benches.RecordedBench`,
            where a source that is not recorded is refused.
        settings: how to search.
        parts: what proposes, checks and ranks.

    Raises:
        InputError: the file, its shape or a parameter is invalid.
        UnsupportedError: there is neither a GPU nor a bench; or a package is missing.
        GpuBusyError: another SolKit holds the GPU.
        WorkerError: SolKit's own part failed.
        TraceError: an outcome could not be written.
    """
    if not gpu_seconds > 0:
        raise InputError(f"gpu_seconds is {gpu_seconds!r}; expected a budget above 0")
    how, supplied = settings or EvolveSettings(), parts or EvolveParts()
    limits, final = _measure_limits(how, gpu_seconds)
    to = _device_for_search(device, limits, bench)
    what = os.fspath(path), os.fspath(path if reference is None else reference), shape
    with contextlib.ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(2))
        loading = threads.submit(_load_surrogate, supplied, bench is None)
        measure = None if bench is None else False
        loads = INDUCTORS_IMPORTS if how.compiled else ()
        session = stack.enter_context(prepared_session(measure, to, limits, what[:2], loads=loads))
        prepared = stack.enter_context(contextlib.closing(Preparation(to, final)))
        proposers = _open_rewriter(stack, supplied, bench, how)
        checkers = _open_checkers(stack, supplied, bench)
        if checkers is not None and _may_load_early(what[1]):
            threads.submit(checkers.start)
        original = Original.read(prepared, *what, how)
        if isinstance(bench, RecordedBench):
            original = original.recorded(bench, how)
        evaluator = KernelEvaluator(prepared, to, original, how, loading.result())
        if not isinstance(bench, RecordedBench):
            evaluator.compile_original()
        evaluator.checks = supplied.check or _make_check(checkers, evaluator)
        stack.callback(evaluator.close)
        evaluator.advise = supplied.advise
        evaluator.log = log = _open_log(stack, bench, original, gpu_seconds, how)
        run = _Run(evaluator, gpu_seconds, supplied.show)
        proposers = _with_inductors(proposers, original, prepared, bench)
        if how.compiled and supplied.proposers is None and not isinstance(bench, RecordedBench):
            run.parents = parents = CompiledParents(original, prepared, how)
            stack.callback(parents.close)
            run.coming = parents.begin()
        with _open_bench(bench, evaluator, limits, log, session) as evaluator.bench:
            selection, stopped = run.search(proposers)
        evaluator.close()  # what is still checked or compiled would run beside the gate's timing
        prepared.analyser.give_up_rankings()
        if run.parents is not None:
            run.parents.close()
        with span("gate"):
            gate = selection.gate(bench, final)
        return run.conclude_search(selection, stopped, gate)


def _load_surrogate(parts: EvolveParts, is_timed: bool) -> Surrogate | None:
    """Return the surrogate, with what ranks by it loaded: servers start meanwhile.

    Where a GPU times, so are its trees and the rewriter's parser: the original would wait for them.
    """
    import solkit.surrogate.ranking
    import solkit.tuner.evolution.evolution_search  # noqa: F401

    model = parts.surrogate or shipped_model()
    if is_timed and model is not None:
        for depth in model.depths:
            model.trees(depth)
        with contextlib.suppress(ImportError):  # of libcst: the rewriter says so
            importlib.import_module("solkit.tuner.proposers.rewriter.entry_points")
    return model


def _measure_limits(
    how: EvolveSettings, gpu_seconds: float
) -> tuple[MeasureSettings, MeasureSettings]:
    """Return the limits of the search, and those of the gate."""
    compile_s = min(max(_LEAST_COMPILE_S, _COMPILE_SHARE * gpu_seconds), _MOST_COMPILE_S)
    final = MeasureSettings(
        how.on,
        custom_kernel=how.custom_kernel,
        study_limit_s=compile_s,
        searching=True,  # turns decide at the gate
    )
    checks_s = max(_LEAST_CHECKS_S, _CHECKS_SHARE * gpu_seconds)
    whole_s = max(_LEAST_CANDIDATE_S, _CANDIDATE_SHARE * gpu_seconds)
    whole_s = min(whole_s, final.time_limit_s)
    return replace(final, checks_limit_s=checks_s, time_limit_s=whole_s), final


def _device_for_search(
    device: str | Device | None, limits: MeasureSettings, bench: Bench | None
) -> Device:
    """Return the GPU to search for."""
    if bench is not None:
        return calibrated(bench.device)
    to = target_device(device, limits)
    if to.source != "nvml":
        raise UnsupportedError(
            f"cannot measure on {to.name}: it is not in this machine; a recording can be replayed "
            "without a GPU (--recorded FILE, or bench=RecordedBench.read(FILE))"
        )
    return to


def _open_rewriter(
    stack: contextlib.ExitStack, parts: EvolveParts, bench: Bench | None, how: EvolveSettings
) -> Sequence[Proposer]:
    """Return the given proposers, or the rewriter: in processes of its own beside a GPU."""
    from solkit.tuner.proposers.apart import Apart
    from solkit.tuner.proposers.rewriter import Rewriter

    if parts.proposers is not None:
        return parts.proposers
    is_replay = isinstance(bench, RecordedBench)
    helpers = 0 if is_replay else min(usable_cores() // _CORES_PER_HELPER, _MOST_HELPERS)
    rewriter = Rewriter(how.seed, checks=False, helpers=helpers)  # what is measured is checked
    if is_replay:
        return [rewriter]
    apart = stack.enter_context(contextlib.closing(Apart(rewriter)))
    apart.start()
    return [apart]


def _with_inductors(
    proposers: Sequence[Proposer], original: Original, prepared: Preparation, bench: Bench | None
) -> Sequence[Proposer]:
    """Return the proposers; those of a reference alone behind its best algorithm and settings."""
    from solkit.tuner.proposers.best_algorithm import BestPlan
    from solkit.tuner.proposers.inductor_settings import InductorSettings

    if (path := original.compiled) is None or isinstance(bench, RecordedBench):
        return proposers
    to = prepared.device

    def compile_with(settings: Mapping[str, Any]) -> str:
        return first_parent(path, to, original.shape, settings).text

    def compile_plan() -> tuple[str, str] | None:
        algorithm = best(path, to, shape=original.shape)
        kind = original.file.problem.format
        text = planned_reference(path, kind, algorithm) if algorithm.code else None
        if text is None:
            return None
        parent = first_parent(prepared.path(text), to, original.shape)
        return parent.text, algorithm.plan

    first = original.variant.source
    settings = InductorSettings(first, compile_with, to.sm_count)
    return [BestPlan(first, compile_plan), settings, *proposers]


def _open_checkers(
    stack: contextlib.ExitStack, parts: EvolveParts, bench: Bench | None
) -> Checkers | None:
    """Return what runs variants in Triton's interpreter; ``None`` if nothing does."""
    from solkit.tuner.interpreter_check import Checkers

    is_checked = parts.check is not None or isinstance(bench, RecordedBench)
    return None if is_checked else stack.enter_context(Checkers())


def _may_load_early(problem: str) -> bool:
    """Tell whether the first checker can load torch before the problem is read.

    Two others load it at that time. What a definition's problem needs to be shown is not known yet.
    """
    is_file = Path(problem).is_file() and not problem.endswith(".json")
    return is_file and usable_cores() >= _LOADING_CORES


def _make_check(checkers: Checkers | None, evaluator: KernelEvaluator) -> Check:
    """Return the check that tells right sources from wrong ones: of a recording that is known."""
    if checkers is None:
        return leave_unchecked
    if why := evaluator.uninterpretable:
        return lambda *_: (Checked.UNCHECKED, why)
    evaluator.end_checks = checkers.close
    evaluator.prepare_checks(checkers.prepare)
    return checkers.check


def _open_log(
    stack: contextlib.ExitStack,
    bench: Bench | None,
    original: Original,
    budget_s: float,
    how: EvolveSettings,
) -> EvolveLog | None:
    """Return the log; of a recording none is written, unless one is named."""
    if bench is not None and how.log is None:
        return None
    about = {
        "what": "solkit evolve",
        "kernel": original.named,
        "shape": dict(original.shape),
        "gpu_seconds": budget_s,
        "seed": how.seed,
    }
    log = EvolveLog(how.log, about, resume=how.resume)
    log.variants = {original.variant.id: original.variant}
    log.spent = lambda: 0.0
    stack.enter_context(log)
    return log


@contextlib.contextmanager
def _open_bench(
    bench: Bench | None,
    evaluator: KernelEvaluator,
    limits: MeasureSettings,
    log: EvolveLog | None,
    session: Session | None,
) -> Iterator[Bench]:
    """Yield the bench of the search."""
    if bench is not None:
        yield bench
        return
    from solkit.measure.benches.guarded import GuardedBench

    assert log is not None
    software = environment()
    with GuardedBench(evaluator.device, evaluator.prospect, log, limits, software, session) as own:
        # the budget is for measuring
        own.load([evaluator.original.problem, evaluator.original.path])
        yield own


# ----------------------------------------------------------------------------------------- the run


@dataclass
class _Run:
    """One run of `evolve`."""

    evaluator: KernelEvaluator
    budget_s: float
    show: Show
    notes: list[str] = field(default_factory=list)
    parents: CompiledParents | None = None
    coming: list[Written] = field(default_factory=list)

    @property
    def original(self) -> Original:
        """Kernel that the search starts from."""
        return self.evaluator.original

    def search(self, proposers: Sequence[Proposer]) -> tuple[Selection, Stopped]:
        """Search until something ends it, then practise."""
        from solkit.tuner.evolution.acquisition import Shares
        from solkit.tuner.evolution.evolution_search import EvolutionSearch

        how, shares, model = self.evaluator.how, None, self.evaluator.surrogate
        if model is not None and (depth := Depth(how.depth)) in model.depths:
            shares = Shares.of(model.trees(depth).calibration.scatter)
        variant = self.original.variant
        breeding = EvolutionSearch(
            self.evaluator,
            proposers,
            (variant, self._first_point()),
            self.budget_s,
            how,
            self._sol_ms(),
            shares,
            self.show,
        )
        practice = Practice(self.evaluator, self.budget_s)
        breeding.kept_s = practice.kept_s()
        breeding.replan = self._planned_ms
        breeding.prepare_practice = practice.prepare
        breeding.coming = self.coming
        if self.evaluator.log is not None:
            self.evaluator.log.spent = self.evaluator.spent_s
            if how.resume:
                self._resume_from_log(breeding, practice, self.evaluator.log)
        stopped = breeding.run()
        selection = Selection(self.evaluator, breeding, practice)
        with span("practice"):
            selection.practise()
        return selection, stopped

    def _first_point(self) -> Point:
        from solkit.tuner.evolution.acquisition import Point

        return Point(self.original.variant.id, self.original.configuration, 0.0, 0.0)

    def _sol_ms(self) -> float | None:
        try:
            return self.evaluator.prepared.bound(self.original.problem, self.original.shape).time_ms
        except InputError as error:
            self.notes.append(f"The problem has no speed of light: {error}")
            return None

    def _planned_ms(self, time_ms: float) -> float | None:
        """Return the speed of light of the best algorithm; ``None`` if a time beats that, too."""
        beaten = f"{duration(time_ms)} is faster than the reference's algorithm can be"
        try:
            plan = best(self.original.problem, self.evaluator.device, shape=self.original.shape)
        except SolkitError as error:
            self.notes.append(f"{beaten}, and no better one was derived: {error}")
            return None
        if plan.time_ms >= time_ms:
            self.notes.append(f"{beaten}, and no better one is known: there is no gap.")
            return None
        better = f"a better one takes {duration(plan.time_ms)} ({plan.plan})"
        self.notes.append(f"{beaten}; {better}, from which gaps are counted.")
        return plan.time_ms

    def _resume_from_log(
        self, breeding: EvolutionSearch, practice: Practice, log: EvolveLog
    ) -> None:
        """Take over what the log's run measured."""
        from solkit.tuner.evolution.acquisition import Point

        earlier = outcomelog.read(log.path)
        texts = {source.sha256[:12]: source.text for source in earlier.sources}
        for row in earlier.rows:
            lineage = row.extra.get(LINEAGE)
            if row.run_id != log.run_id or row.comparison is not None or lineage is None:
                continue
            self.evaluator.earlier_s = max(self.evaluator.earlier_s, lineage["spent_s"])
            if lineage.get("kind") == SIZE_GUARD:
                continue  # it is made of a winner: nothing is built on it
            name = (row.source_sha256 or "")[:12]
            if row.shape != self.original.whole_shape:
                practice.take(name, row)
                continue
            if name not in texts:
                continue
            variant = variant_of(name, texts[name], lineage)
            path = self.evaluator.path(variant)
            configuration = self.original.of(path, row.params, row.chosen_by)
            log.variants[name] = variant
            self.evaluator.fits_one_shape(variant)
            breeding.adopt_measurement(
                variant,
                Point(name, configuration, 0.0, 0.0),
                self.evaluator.judged(self.evaluator.prospect_of(configuration), row),
            )

    def conclude_search(self, selection: Selection, stopped: Stopped, gate: Gate | None) -> Evolved:
        """Return the result."""
        breeding, evaluator = selection.breeding, self.evaluator
        archive, best = breeding.archive, selection.winner
        original = archive[archive.original]
        passed = gate is not None and gate.passed
        taken = best if passed else original
        own = TimedParams(self.original.params, breeding.first_ms, message=original.why or None)
        chosen = TimedParams(best.params, best.time_ms) if passed else own
        own_notes = [*self.notes, *selection.notes, *(self.parents.notes if self.parents else ())]
        budgets = {id(b): b for p in breeding.proposers if (b := getattr(p, "budget", None))}
        return Evolved(
            kernel=self.original.named,
            problem_id=kernel_of_file(self.original.file).problem_id(self.original.whole_shape),
            shape=self.original.whole_shape,
            device=evaluator.device.key,
            sol_ms=breeding.sol_ms,
            original=own,
            best=taken.variant.id,
            best_params=chosen,
            verdict=TuneVerdict.FASTER if passed else TuneVerdict.KEEP,
            gate=gate,
            variants=tuple(archive),
            rounds=breeding.rounds,
            measured=breeding.measured,
            failed=breeding.failed,
            gpu_s=evaluator.spent_s(),
            stopped=stopped,
            trajectory=tuple(breeding.trajectory),
            cost=sum(budget.cost for budget in budgets.values()),
            log=None if evaluator.log is None else str(evaluator.log.path),
            notes=(*self.original.notes, *own_notes, *breeding.notes, *selection.practice.notes),
            environment=environment(),
            finalists=selection.finalists,
            better_chance=breeding.better_chance(),
        )
