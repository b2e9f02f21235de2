"""Ranking, checking and measuring of variants for a search, and what is made ready ahead of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from solkit.core import (
    AnalysisStatus,
    Bred,
    Brief,
    Checked,
    Configuration,
    Depth,
    Device,
    EvolveSettings,
    Outcome,
    Result,
    Tried,
    Value,
    Variant,
    Verdict,
)
from solkit.datasets.kernels import kernel_of_file
from solkit.errors import InputError, NotRecordedError, SolkitError
from solkit.measure.benches import Bench, RecordedBench
from solkit.measure.memory_needs import least_memory_bytes
from solkit.measure.outcomes import PreparedCandidate, score_result
from solkit.pipeline.compiled_parents import COMPILED
from solkit.pipeline.evolve_log import EvolveLog
from solkit.pipeline.evolve_original import Original
from solkit.pipeline.held_out_kernels import HeldOutKernels
from solkit.pipeline.launch_keys import are_same_launches, key_of_candidate, look_at_launches
from solkit.pipeline.preparing import Preparation
from solkit.pipeline.studies_ahead import StudiesAhead
from solkit.pipeline.timed_variants import TimedVariants
from solkit.pipeline.variant_checks import VariantChecks
from solkit.pipeline.variant_ranking import VariantRanker
from solkit.spans import span

if TYPE_CHECKING:
    from solkit.core import Forecast
    from solkit.surrogate.model import Surrogate
    from solkit.tuner.evolution.acquisition import Point
    from solkit.tuner.evolution.variant_evaluator import Ranking, Study, VariantOutcome
    from solkit.tuner.proposers.rewriter.size_guard import Layouts

T = TypeVar("T")
Studied = tuple[Configuration, PreparedCandidate]
Advise = Callable[[Result, Device], tuple[str, ...]]
Check = Callable[[str, Brief], tuple[Checked, str]]

_COPIED_SHARE = 1 / 16
"""Share of the GPU's memory: a problem of so many bytes has room for all copies of its inputs."""
_INTERPRETED_BYTES = 1 << 24
"""Size of a problem that has no smaller size: beyond it, the interpreter takes minutes."""
_RANK_S, _AWAITED_RANK_S = 5.0, 2.5
"""Seconds for which a round waits until candidates are lowered: some take 40 s. Fewer where the GPU
waits too: what promises most is compiled next, and forecast by that."""
_TOO_LONG = "Analysing and compiling it takes too long."
_TOO_LONG_ELSEWHERE = "Compiling it for a held-out shape takes too long."
_SAME_CODE = "Compiled, it runs the code that {} was timed with."
_NEXT = 4
"""Studied candidates that are compiled for held-out shapes, the most promising ones: a second has
about one measurement, and most candidates get none."""
_PLANNED = 5  # at a time: proposals are written, others ranked, and programs of the reference
_TRIES = 2
"""Times that a candidate is measured if the conditions were unreliable."""


def leave_unchecked(_source: str, _brief: Brief) -> tuple[Checked, str]:
    """Nothing is checked: the bench decides."""
    return Checked.UNCHECKED, "It was not checked before it was measured."


@dataclass
class KernelEvaluator:
    """Ranking and measuring of variants, as the `VariantEvaluator` of a search.

    Attributes:
        prepared: reads, analyses and compiles them.
        device: the target.
        original: what the search starts from.
        how: the settings.
        surrogate: ranks; ``None`` for the kernel model alone.
        bench: checks and times.
        log: gets outcomes; ``None`` for none.
        checks: tells right proposals from wrong ones without a GPU.
        end_checks: ends what `checks` runs.
        advise: gives advice on a result.
        earlier_s: GPU seconds of the run that is resumed.
        is_closed: whether nobody waits for anything any more: the gate times.
    """

    prepared: Preparation
    device: Device
    original: Original
    how: EvolveSettings
    surrogate: Surrogate | None
    bench: Bench = None  # type: ignore[assignment] # it asks this for prospects
    log: EvolveLog | None = None
    checks: Check = leave_unchecked
    end_checks: Callable[[], None] = lambda: None
    advise: Advise = lambda *_: ()
    earlier_s: float = 0.0
    is_closed: bool = False
    _own_s: float = 0.0
    _begun_s: float | None = None  # of what is being measured, by the bench's clock
    _ended_s: float = field(default_factory=time.monotonic)  # when the last measurement did
    _prospects: dict[int, PreparedCandidate] = field(default_factory=dict)
    _variant_checks: VariantChecks = field(default_factory=VariantChecks)
    _one_shape: set[str] = field(default_factory=set)
    _prepare_check: Callable[[Brief], None] = lambda _: None
    _forecasts: dict[str, Forecast | None] = field(default_factory=dict)  # of compiled candidates
    _timed: TimedVariants = field(default_factory=TimedVariants)
    _planner: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_PLANNED))
    _held_out: HeldOutKernels = field(init=False)
    _ahead: StudiesAhead[Studied] = field(init=False)
    _compiled_ahead: StudiesAhead[None] = field(init=False)

    def __post_init__(self) -> None:
        self._held_out = HeldOutKernels(self.prepared, self.original)
        self._ahead = StudiesAhead(self._study_ahead)
        self._compiled_ahead = StudiesAhead(self._compile_new, _NEXT)

    @property
    def overlaps(self) -> bool:
        """True if `begin` returns before the work is done: a replay is the same each time."""
        return not isinstance(self.bench, RecordedBench)

    def begin(self, work: Callable[[], T]) -> Future[T]:
        """Do work that needs no GPU while candidates are measured, some of it at a time."""
        if self.overlaps:
            return self._planner.submit(work)
        done: Future[T] = Future()
        done.set_result(work())
        return done

    def foresee(self, points: Sequence[Point]) -> None:
        """Study candidates that may be measured next, while another one is.

        Those that promise most once they are studied are compiled for held-out shapes.
        """
        if self.overlaps:
            self._ahead.foresee(points)
            studied = (point for point in points if self._ahead.has_result(point.configuration))
            self._compiled_ahead.foresee(list(islice(studied, _NEXT)))

    def clear_ahead(self) -> None:
        """Give up what was foreseen and is not studied yet: something else comes now."""
        self._ahead.clear()
        self._compiled_ahead.clear()

    def studied(self) -> Sequence[Study]:
        """Return what was found out of foreseen candidates since the last call."""
        from solkit.tuner.evolution.variant_evaluator import Study

        studies = [self._read_study(point, study) for point, study in self._ahead.ended()]
        for point, compiled in self._compiled_ahead.ended():
            if compiled is None or compiled.exception() is not None:
                studies.append(Study(point, refused=_TOO_LONG_ELSEWHERE))
        timed = self._timed.pop_known()
        return studies + [Study(p, refused=_SAME_CODE.format(variant)) for p, variant in timed]

    def _read_study(self, point: Point, study: Future[Studied] | None) -> Study:
        """Return what a study says; a ranking before compiling knows of no spills."""
        from solkit.tuner.common_failure import failure_reason
        from solkit.tuner.evolution.acquisition import Point
        from solkit.tuner.evolution.variant_evaluator import Study

        endless = Study(point, refused=_TOO_LONG, is_telling=True, is_endless=True)
        if study is None:
            return endless
        try:
            configuration, prospect = study.result()
        except InputError as error:
            return Study(point, refused=str(error))
        if self._takes_too_long(prospect):
            return endless
        if refused := self._compile_error(prospect):
            alike = failure_reason(Verdict.DOES_NOT_COMPILE, refused) is not None
            return Study(point, refused=refused, is_telling=alike)
        self._timed.await_code(self._code_of(prospect), point)
        if configuration.key not in self._forecasts:
            self._forecasts[configuration.key] = self._forecast_compiled(configuration, prospect)
        if (forecast := self._forecasts.pop(configuration.key)) is None:
            return Study(point)
        refined = Point.of(point.variant, point.configuration, forecast, 2.0**point.mean)
        return Study(refined, forecast.low_ms or forecast.time_ms)

    def is_late(self, point: Point) -> bool:
        """Tell whether a candidate is studied for longer than the GPU should wait."""
        both = self._ahead, self._compiled_ahead
        return any(ahead.is_late(point.configuration) for ahead in both)

    def is_ready(self, point: Point) -> bool:
        """Tell whether measuring a candidate can begin at once."""
        is_compiled = self._compiled_ahead.has_result(point.configuration)
        return is_compiled and not self._variant_checks.is_awaited(point.variant)

    def await_any(self, others: Sequence[Future[Any]], timeout_s: float | None) -> bool:
        """Wait until a study, a check or one of `others` ends; false if there is none."""
        futures: list[Future[Any]] = [*self._ahead.running(), *self._compiled_ahead.running()]
        futures += [*self._variant_checks.running(), *others]
        if not futures:
            return False
        if not any(future.done() for future in futures):  # `wait` overlooks those given up
            wait(futures, timeout_s, return_when=FIRST_COMPLETED)
        return True

    def _study_ahead(self, configuration: Configuration, begun: set[Future[Any]]) -> Studied:
        """Return `_study_new` of a candidate, with its forecast made: the search waits for none.

        Raises:
            InputError: as for `_study_new`.
        """
        configuration, prospect = self._study_new(configuration, begun)
        if not (_error_of(prospect) or _is_given_up(prospect)):
            key = configuration.key
            self._forecasts[key] = self._forecast_compiled(configuration, prospect)
        return configuration, prospect

    def _study_new(self, configuration: Configuration, begun: set[Future[Any]]) -> Studied:
        """Return `_study` of a candidate, unless it launches what was measured already.

        A rewrite that a launcher guards by a size may change nothing at the shape of the search.

        Raises:
            InputError: it does; or it cannot be used.
        """
        if self.overlaps and (timed := self._timed.with_launches(self._launches_of(configuration))):
            raise InputError(f"At this shape it launches what {timed} does.")
        return self._study(configuration, begun)

    def _launches_of(self, configuration: Configuration) -> str:
        return key_of_candidate(self.prepared.analyser, configuration)

    def are_same(self, one: Configuration, other: Configuration) -> bool:
        """Tell whether two candidates are seen to ask the GPU for the same.

        Of a replay nothing is seen: it looks up what was compared.
        """
        return self.overlaps and are_same_launches(self.prepared.analyser, one, other)

    def inputs_of(self, configuration: Configuration) -> Layouts:
        """Return layouts of the tensors that a configuration gets; empty if they are unknown."""
        try:
            return self.prepared.analyser.input_layouts(configuration).result()
        except SolkitError:
            return {}

    def look_at_launches(
        self, candidates: Sequence[Configuration], shapes: Sequence[Mapping[str, Value]]
    ) -> None:
        """Begin to see what candidates launch at shapes, for `are_same`."""
        if self.overlaps:
            look_at_launches(self.prepared.analyser, candidates, shapes)

    def compile_original(self) -> None:
        """Begin to compile the original for held-out shapes: see `HeldOutKernels`."""
        if self.overlaps:
            self._held_out.begin_original()

    def _study(
        self, configuration: Configuration, begun: set[Future[Any]] | None = None
    ) -> Studied:
        """Return what is known of a candidate; its kernels are then in Triton's cache.

        Raises:
            InputError: it cannot be used.
        """
        with span("studying"):
            begun_s = time.monotonic()
            pair = self.prepared.analysed(configuration, None, None, None, begun)
            self._held_out.note_study(configuration, time.monotonic() - begun_s)
        return pair

    def _compile_new(self, configuration: Configuration, begun: set[Future[Any]]) -> None:
        """Compile a studied candidate for held-out shapes: the bench checks it there.

        What is new is refused if that takes too long: it would, on the GPU.

        Raises:
            InputError: it does.
        """
        if not self._held_out.compile(configuration, begun):
            raise InputError(_TOO_LONG_ELSEWHERE)

    def spent_s(self) -> float:
        """GPU seconds that measuring took, up to now: a log's row has its own measurement's."""
        running_s = 0.0
        if self._begun_s is not None:
            running_s = self.bench.clock.gpu_s() - self._begun_s
        return self.earlier_s + self._own_s + running_s

    def idle_s(self) -> float:
        """Return the seconds since the last measurement; 0 in a replay, where nothing waits."""
        is_idle = self.overlaps and self._begun_s is None
        return time.monotonic() - self._ended_s if is_idle else 0.0

    def prospect(self, configuration: Configuration) -> PreparedCandidate:
        """Return what is known of a configuration that is being measured."""
        return self._prospects[id(configuration)]

    def path(self, variant: Variant) -> str:
        """Return the variant's file."""
        return self.original.path_of(variant, self.prepared)

    # ------------------------------------------------------------------------------------ ranking

    def rank(self, variants: Sequence[Variant], otherwise_ms: float) -> Ranking:
        """Return forecasts of variants' candidates, without a GPU."""
        recording = self.bench if isinstance(self.bench, RecordedBench) else None
        parts = self.prepared, self.original, self.how, self.surrogate, recording
        ranker = VariantRanker(*parts, self.fits_one_shape)
        return ranker.rank(variants, otherwise_ms, self._rank_patience_s)

    def _rank_patience_s(self) -> float | None:
        if not self.overlaps:
            return None
        return _AWAITED_RANK_S if self.idle_s() > 0 else _RANK_S

    # ---------------------------------------------------------------------------------- measuring

    def holds(self, *configurations: Configuration) -> bool:
        """Tell whether all can be measured, as far as a recording may lack them."""
        if isinstance(self.bench, RecordedBench):
            try:
                self.bench.require_recorded(configurations)
            except NotRecordedError:
                return False
        return True

    def accepts_shape(self, shape: Mapping[str, Value]) -> bool:
        """Tell whether the original runs at a shape within the GPU's memory, as far as is known.

        Copies of the inputs take a multiple of the problem's bytes. So a shape may need as many as
        the search's, or a small share of the memory.
        """
        own = self.original.configuration
        here, there = self.prospect_of(own), self.prospect_of(replace(own, shape=shape))
        if here is None or there is None:
            return False
        most = max(here.result.work.dram_bytes, _COPIED_SHARE * self.device.memory_bytes)
        fails = _failure_of(there) != _failure_of(here)
        return not fails and there.result.work.dram_bytes <= most

    def may_fit(self, shape: Mapping[str, Value], share: float = 1.0) -> bool:
        """Tell whether a share of the GPU's memory holds what comparing two candidates takes.

        Only bytes that the reference needs are counted, so what is refused surely does not fit.
        """
        prospect = self.prospect_of(replace(self.original.configuration, shape=shape))
        if prospect is None:
            return True  # measuring it says what is wrong
        work = prospect.result.work
        least = least_memory_bytes(work.dram_read_bytes, work.dram_write_bytes, candidates=2)
        return least <= share * self.device.memory_bytes

    def measure(self, point: Point, variant: Variant) -> VariantOutcome:
        """Check a candidate and time it; again if the conditions were unreliable."""
        from solkit.tuner.evolution.variant_evaluator import VariantOutcome

        if self.log is not None:
            self.log.variants[variant.id] = variant
        try:
            configuration, prospect = self._study_or_earlier(point.configuration)
        except InputError as error:
            return VariantOutcome(Verdict.NOT_MEASURED, why=str(error))
        if self._takes_too_long(prospect):
            return VariantOutcome(Verdict.TIMED_OUT, why=_TOO_LONG)
        if refused := self._compile_error(prospect):
            return VariantOutcome(Verdict.DOES_NOT_COMPILE, why=refused)
        configuration = replace(configuration, hopeless_ms=point.configuration.hopeless_ms)
        for _ in range(_TRIES):
            result = self._measure_safely(configuration, prospect)
            if result.verdict is not Verdict.UNSTABLE:
                break
        is_own_shape = configuration.shape == self.original.shape
        if result.time_ms is not None and self.overlaps and is_own_shape:
            launches, code = self._launches_of(configuration), self._code_of(prospect)
            self._timed.add(point, launches, code)
        return result

    def _code_of(self, prospect: PreparedCandidate) -> str:
        """Return what tells a candidate's compiled code apart; empty if that is unknown."""
        analysis = prospect.result.analysis
        return "" if analysis is None or not self.overlaps else analysis.code

    def _study_or_earlier(self, configuration: Configuration) -> Studied:
        """Return the study of a candidate: that of before, if there is one.

        Raises:
            InputError: it cannot be used.
        """
        if (begun := self._ahead.get(configuration)) is not None:
            pair = begun.result()
        elif configuration.hopeless_ms is None:  # practice: it may launch what was measured
            pair = self._study(configuration)
        else:
            pair = self._study_new(configuration, set())
        if self.overlaps and not (_error_of(pair[1]) or _is_given_up(pair[1])):
            self._compile_or_earlier(configuration)
        self._held_out.await_listed(configuration)
        return pair

    def _compile_or_earlier(self, configuration: Configuration) -> None:
        """Compile a candidate for held-out shapes, or wait until that is done."""
        begun = self._compiled_ahead.get(configuration)
        if begun is not None:
            begun.result()
        elif not self._held_out.compile(configuration) and configuration.hopeless_ms is not None:
            raise InputError(_TOO_LONG_ELSEWHERE)

    def _forecast_compiled(
        self, configuration: Configuration, prospect: PreparedCandidate
    ) -> Forecast | None:
        """Return the forecast of a candidate that is compiled; ``None`` if it is not."""
        from solkit.surrogate.candidate_forecasts import (
            common_depth,
            entry_of_analysis,
            forecast_candidate,
            problem_from,
        )

        result = prospect.result
        depth = common_depth(result.analysis) if result.analysis.is_whole else None
        if depth is not Depth.COMPILED:
            return None
        kernel, shape = kernel_of_file(prospect.file), configuration.shape
        problem = problem_from(result.bound, result.work, shape)
        about = problem, self.device, kernel, shape, configuration.params, result.analysis
        return forecast_candidate(entry_of_analysis(*about), depth, self.surrogate)

    def _takes_too_long(self, prospect: PreparedCandidate) -> bool:
        """Tell whether a candidate's analysis ran out of time, but the original's did not."""
        if isinstance(self.bench, RecordedBench) or not _is_given_up(prospect):
            return False
        own = self.prospect_of(self.original.configuration)
        return own is not None and not _is_given_up(own)

    def _compile_error(self, prospect: PreparedCandidate) -> str:
        """Return why a kernel of a candidate cannot run here; empty if none is known to fail.

        The compiler and the GPU's limits are those of a measurement, so none is needed. Where the
        original fails as well, the analysis is no judge.
        """
        if isinstance(self.bench, RecordedBench) or not (error := _error_of(prospect)):
            return ""
        own = self.prospect_of(self.original.configuration)
        return "" if own is None or _error_of(own) else error

    def _measure_safely(
        self, configuration: Configuration, prospect: PreparedCandidate
    ) -> VariantOutcome:
        from solkit.tuner.evolution.variant_evaluator import VariantOutcome

        try:
            return self.judged(prospect, self._await_outcome(configuration, prospect))
        except InputError as error:  # e.g. it is not recorded
            return VariantOutcome(Verdict.NOT_MEASURED, why=str(error))

    def prospect_of(self, configuration: Configuration) -> PreparedCandidate | None:
        """Return what is known of a configuration without a GPU; ``None`` if it is unusable."""
        try:
            return self.prepared.analysed(configuration, None, None, None)[1]
        except InputError:
            return None

    def judged(self, prospect: PreparedCandidate | None, outcome: Outcome) -> VariantOutcome:
        """Return what an outcome says of a candidate."""
        from solkit.tuner.evolution.population_archive import behaviour_of
        from solkit.tuner.evolution.variant_evaluator import VariantOutcome

        counts = outcome.verdict.is_right
        result = None if prospect is None else score_result(prospect.result, outcome, self.device)
        return VariantOutcome(
            outcome.verdict,
            outcome.time_ms if counts else None,
            () if result is None else behaviour_of(result.analysis, self.device, outcome.verdict),
            result,
            "" if counts else (outcome.message or outcome.verdict.value),
        )

    def _await_outcome(self, configuration: Configuration, prospect: PreparedCandidate) -> Outcome:
        """Return the outcome of one measurement, whose seconds are counted."""
        bench = self.bench
        self._prospects[id(configuration)] = prospect
        self._begun_s = begun_s = (
            bench.clock.gpu_s()
        )  # waiting until others release the GPU costs no budget
        try:
            with span("measuring"):
                bench.submit([configuration])
                ((_, outcome),) = bench.outcomes()
        finally:
            self._own_s += bench.clock.gpu_s() - begun_s
            self._begun_s, self._ended_s = None, time.monotonic()
            self._prospects.pop(id(configuration), None)
        if self.log is not None and isinstance(bench, RecordedBench):
            self.log.append([outcome], kernel_of_file(prospect.file).files)
        return outcome

    # ----------------------------------------------------------------------------------- proposing

    def prepare_checks(self, prepare: Callable[[Brief], None]) -> None:
        """Begin to run the original where its variants will be checked, and later other parents.

        That takes seconds, in which their variants are written.
        """
        self._prepare_check = prepare
        original = Bred(self.original.variant, params=self.original.params)
        self.expect_parent(self.brief(original, None, ()))

    def expect_parent(self, brief: Brief) -> None:
        """Begin to run a kernel where its variants will be checked."""
        if self.overlaps:
            self._variant_checks.prepare(partial(self._prepare_check, brief))

    @property
    def uninterpretable(self) -> str:
        """The reason why the interpreter cannot try any variant; empty if it can."""
        if self.original.compiled is None:
            return ""
        prospect = self.prospect_of(self.original.configuration)
        if prospect is None or prospect.result.work.dram_bytes <= _INTERPRETED_BYTES:
            return ""
        return "The interpreter is too slow for this problem, and the kernels fit no smaller one."

    def expect(self, variants: Sequence[tuple[Variant, Brief]]) -> None:
        """Begin to check variants that may be measured soon, on the cores that have nothing to do.

        The GPU need not wait for a check then, which takes seconds.
        """
        for variant, brief in variants:
            self._variant_checks.begin(variant, partial(self._check_new, variant, brief))

    def fits_one_shape(self, variant: Variant) -> bool:
        """Tell whether a variant's launches are the original's at all shapes but the search's.

        It is the reference's program, or was made of one: see `solkit.pipeline.compiled_parents`.
        """
        is_program = variant.proposer == COMPILED and self.original.compiled is None
        if is_program or variant.parent in self._one_shape:
            self._one_shape.add(variant.id)
        return variant.id in self._one_shape

    def _check_new(self, variant: Variant, brief: Brief) -> tuple[Checked, str]:
        if self.fits_one_shape(variant):
            return Checked.UNCHECKED, "It fits this shape alone: the bench decides."
        with span("checking"):
            return self.checks(variant.source, brief)

    def check(self, variant: Variant, brief: Brief) -> Variant:
        """Return the variant with what can be found out of its results without a GPU."""
        self.expect([(variant, brief)])
        return self._variant_checks.checked(variant, is_patient=not self.overlaps)

    def checked_late(self) -> Sequence[Variant]:
        """Return the variants whose checks took long and have ended since the last call."""
        return self._variant_checks.checked_late()

    def await_checks(self, variants: Collection[str]) -> None:
        """Wait a while for the checks of variants that took long: nothing else is computed then."""
        if self._variant_checks.late(variants):
            self.clear_ahead()
            self._variant_checks.await_late(variants)

    def close(self) -> None:
        """Give up the work that nobody waits for."""
        self.is_closed = True
        self._ahead.close()
        self._compiled_ahead.close()
        self._variant_checks.close()
        self._planner.shutdown(wait=False, cancel_futures=True)
        self.end_checks()

    def brief(self, bred: Bred, result: Result | None, tried: Sequence[Tried]) -> Brief:
        """Return what a proposer reads of a variant."""
        original = self.original
        if result is None and bred.variant.id == original.variant.id:  # it is not measured yet
            prospect = self.prospect_of(original.configuration)
            result = None if prospect is None else prospect.result
        return Brief(
            bred.variant.source,
            Path(original.named).name,
            self.device,
            original.whole_shape,
            original.reference,
            bred.params or original.params,
            result,
            () if result is None else self.advise(result, self.device),
            tuple(tried),
            str(Path(original.problem).resolve()) if original.file.problem.is_definition else None,
        )


def _failure_of(prospect: PreparedCandidate) -> str:
    """Return how a candidate fails; an analysis that was given up counts as timed out."""
    analysis = prospect.result.analysis
    is_given_up = analysis.status is AnalysisStatus.OUT_OF_TIME
    return Verdict.TIMED_OUT.value if is_given_up else analysis.failure


def _is_given_up(prospect: PreparedCandidate) -> bool:
    """Tell whether a candidate, or the compiler of one of its kernels, took too long.

    What was not compiled ahead would be compiled by the process that has the GPU.
    """
    if _failure_of(prospect) == Verdict.TIMED_OUT.value:
        return True
    kernels = prospect.result.analysis.own
    return any(kernel.error is None and kernel.facts.registers is None for kernel in kernels)


def _error_of(prospect: PreparedCandidate) -> str:
    """Return why the first kernel that cannot run on the device cannot; empty if all can."""
    errors = (kernel.error for kernel in prospect.result.analysis.own if kernel.error)
    return next(errors, "")
