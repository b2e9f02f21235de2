"""An evaluator for any search loop: candidates in, grades out; GPU time goes to the promising.

::

    stage 1   read, inspect, capture, lower, compile ─► forecast      no GPU
    stage 2   check and time                                          the bench

::

    with Evaluator("problem.py") as evaluator:
        for graded in evaluator.evaluate_all(sources):
            print(graded.combined_score, graded.reasons)

What is wrong with a candidate is in its grade. Only what is not a candidate's fault is raised.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from solkit.analysis.study import describe
from solkit.core import (
    Checked,
    Configuration,
    Depth,
    Device,
    MeasureSettings,
    Outcome,
    Result,
    Value,
    Verdict,
)
from solkit.errors import InputError, NotRecordedError
from solkit.integrations import grading
from solkit.integrations.candidates import (
    Key,
    ReadCandidate,
    Reader,
    candidate_key,
    hide_private_path,
    refused_grade,
    source_text,
)
from solkit.integrations.forecasting import Forecaster, optimistic
from solkit.integrations.grading import NOT_RECORDED, PASSED_SCORE, Advise, Graded, Reward, Stage
from solkit.integrations.recordings import Recording, recorded_problem
from solkit.measure.benches import Bench, RecordedBench
from solkit.measure.benches.recorded import recorded_cost
from solkit.pipeline.evaluation import Evaluation, Given, Text
from solkit.pipeline.lab import Lab
from solkit.roofline.score import sol_score
from solkit.surrogate.model import Surrogate
from solkit.surrogate.plan import Ranked
from solkit.surrogate.ranking import RankSettings
from solkit.tuner.interpreter_check import Checker

_TOGETHER = 4
"""Candidates that are measured before the rest is held against what they took."""
_MOST_KEPT = 10_000
"""Grades of measured candidates that are remembered."""
_TRIES = 2
"""Times that a candidate is measured if the conditions were unreliable."""


@dataclass(frozen=True)
class Grading:
    """Options of grading.

    Attributes:
        accept: a candidate is rejected if the low end of its forecast is more than so many times
            the best time that is known.
        incumbent: what is in use now; it is measured first, and candidates are held against it.
        baseline_ms: the time that earns a SOL score of 0.5 where the reference's is not known; of a
            recording the median of its times by default.
        depth: the deepest that a candidate is analysed before it is measured.
        sources: texts of the recording; see `solkit.integrations.recordings.Recording`.
        advise: gives advice on a result, for the reasons; `solkit.report.advice.advise` does.

    Raises:
        InputError: a value is out of its range.
    """

    accept: float = 1.1
    incumbent: Given | None = None
    baseline_ms: float | None = None
    depth: Depth | str = Depth.COMPILED
    sources: Sequence[str] = ()
    advise: Advise = lambda *_: ()

    def __post_init__(self) -> None:
        if not self.accept > 0:
            raise InputError(f"accept is {self.accept!r}; expected a factor above 0, such as 1.1")
        object.__setattr__(self, "depth", Depth(RankSettings(self.depth).depth))


class Evaluator:
    """Grades candidates for one problem at one shape; any number of threads may use it.

    For several problems make several, with one Lab as `bench`: they share processes and the GPU.

    Args:
        problem: the file with the reference, as a path or as text.
        device: the target; by default the GPU of this machine, else an H100.
        bench: measures instead of this machine's GPU, e.g.
            `solkit.measure.benches.RecordedBench`; or a `solkit.Lab`, which stays open.
        shape: sizes to override; the file's first shape by default.
        settings: how to measure.
        surrogate: forecasts; the shipped one by default. Without any, the kernel model does.
        budget_s: GPU seconds; what they do not suffice for passes stage 1 at the most.
        how: how to grade.

    Attributes:
        lab: bounds, analyses and measures.

    Raises:
        InputError: the problem, its shape, the device or a setting is invalid.
        UnsupportedError: this machine cannot run the sandbox.
    """

    def __init__(
        self,
        problem: Text,
        device: str | Device | None = None,
        *,
        bench: Bench | Lab | None = None,
        shape: Mapping[str, Value] | None = None,
        settings: MeasureSettings | None = None,
        surrogate: Surrogate | None = None,
        budget_s: float | None = None,
        how: Grading | None = None,
    ) -> None:
        self._how, self._budget_s = how or Grading(), budget_s
        self._lock, self._first = threading.Lock(), threading.Lock()
        self._incumbent, self._spent_s = self._how.incumbent, 0.0
        self._best_ms: float | None = None
        self._kept: dict[Key, Graded] = {}
        with contextlib.ExitStack() as stack:
            if isinstance(bench, Lab):
                self.lab = bench
            else:
                self.lab = stack.enter_context(Lab(device, settings=settings, bench=bench))
            self._prepared = self.lab._prepared
            path = self._prepared.path(problem)
            file = describe(self._prepared.analyser, path)
            sizes = {**file.problem.shapes[0], **(shape or {})}
            recording = self._lab_recording()
            self._baseline_ms = self._how.baseline_ms
            if recording is not None and self._baseline_ms is None:
                whole = {**file.problem.sizes, **sizes}
                self._baseline_ms = recording.baseline_ms(source_text(path), whole)
            self._reader = Reader(self._prepared, path, sizes, recording)
            self._forecasts = Forecaster(self._prepared, path, sizes, surrogate)
            self._checker = stack.enter_context(Checker()) if recording is None else None
            self._stack = stack.pop_all()

    @classmethod
    def recorded(
        cls,
        store: str | os.PathLike[str],
        problem: Text,
        *,
        shape: Mapping[str, Value] | None = None,
        device: str | None = None,
        budget_s: float | None = None,
        how: Grading | None = None,
    ) -> Evaluator:
        """Return an evaluator without a GPU: it looks candidates up in a store.

        A candidate is a source of the store, maybe with other defaults of its kernel's parameters.
        Any other source is `not_recorded`.

        Args:
            store: its folder.
            problem: as for the class, and so on.
            shape: sizes to override.
            device: the GPU, if the store has several.
            budget_s: of the GPU seconds that were recorded.
            how: how to grade; its `sources` are those of the store.

        Raises:
            InputError: it is no store, or has no rows of this problem.
        """
        recording = recorded_problem(store, source_text(problem), device)
        grading_options = replace(how or Grading(), sources=recording.texts)
        return cls(
            problem, bench=recording.bench, shape=shape, budget_s=budget_s, how=grading_options
        )

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the Lab, unless it was given."""
        self._stack.close()

    @property
    def device(self) -> Device:
        """The target."""
        return self.lab.device

    @property
    def best_ms(self) -> float | None:
        """The best time of a correct candidate so far; ``None`` before the first."""
        return self._best_ms

    @property
    def spent_s(self) -> float:
        """GPU seconds that measuring took."""
        return self._spent_s

    def _lab_recording(self) -> Recording | None:
        """Return the recording that the Lab looks up; ``None`` if it measures, or cannot."""
        shared = self.lab._bench
        if shared is None or not isinstance(shared.bench, RecordedBench):
            return None
        return Recording(shared.bench, self._how.sources)

    # ---------------------------------------------------------------------------------- one by one

    def stage1(self, source: Given) -> Graded:
        """Grade a candidate without a GPU.

        Args:
            source: a kernel file, as a path or as text; or a `solkit.core.Configuration` of one,
                which may have parameters.

        Raises:
            WorkerError: SolKit's own part failed.
        """
        (graded,) = self._forecast_grades(self._reader.read([source]))
        return graded

    def stage2(self, source: Given) -> Graded:
        """Check a candidate and time it, whatever its forecast.

        Args:
            source: as for `stage1`.

        Raises:
            GpuBusyError, TraceError, WorkerError: as for `solkit.Lab.measure`.
        """
        read = self._forecasts.settle_choices(self._reader.read([source]))
        return self._measure_grades(read)[0]

    def evaluate(self, source: Given) -> Graded:
        """Run both stages; what the forecast rejects is not measured.

        Args:
            source: as for `stage1`.

        Raises:
            GpuBusyError, TraceError, WorkerError: as for `solkit.Lab.measure`.
        """
        (graded,) = self.evaluate_all([source])
        return graded

    # ---------------------------------------------------------------------------------- in batches

    def evaluate_all(self, sources: Iterable[Given], most: int | None = None) -> list[Graded]:
        """Rank all candidates, then measure the promising, the most promising first.

        Args:
            sources: as for `stage1`.
            most: how many may be measured; by default as many as the forecast does not reject.

        Returns:
            The grades, in the order given.

        Raises:
            GpuBusyError, TraceError, WorkerError: as for `solkit.Lab.measure`.
        """
        self._measure_incumbent()
        read = self._forecasts.settle_choices(self._reader.read(sources))
        grades = self._forecast_grades(read)
        order = sorted(range(len(grades)), key=lambda place: _measuring_order(grades[place]))
        remaining = [place for place in order if grades[place].stage is Stage.PASSED][:most]
        while remaining and not self._is_budget_spent:
            now, remaining = remaining[:_TOGETHER], remaining[_TOGETHER:]
            candidates = [
                candidate for place in now if isinstance(candidate := read[place], ReadCandidate)
            ]
            for place, graded in zip(now, self._measure_grades(candidates), strict=True):
                grades[place] = _with_forecast(graded, grades[place])
            for place in remaining:
                grades[place] = self._against_best(grades[place])
            remaining = [place for place in remaining if grades[place].stage is Stage.PASSED]
        if self._is_budget_spent:
            for place in remaining:
                grades[place] = _unaffordable(grades[place])
        return grades

    def reward(self, sources: Iterable[Given]) -> list[Reward]:
        """Return the rewards of reinforcement learning; a forecast rejects nothing.

        A model that learns would learn to please the forecast, so only times count.

        Args:
            sources: as for `stage1`; equal ones are measured once.

        Returns:
            The rewards, in the order given.

        Raises:
            GpuBusyError, TraceError, WorkerError: as for `solkit.Lab.measure`.
        """
        read = self._forecasts.settle_choices(self._reader.read(sources))
        distinct = {
            candidate.key: candidate for candidate in read if isinstance(candidate, ReadCandidate)
        }
        graded = dict(zip(distinct, self._measure_grades(list(distinct.values())), strict=True))
        return [
            Reward.of(graded[candidate.key] if isinstance(candidate, ReadCandidate) else candidate)
            for candidate in read
        ]

    # --------------------------------------------------------------------------------- forecasting

    def _measure_incumbent(self) -> None:
        """Measure what is in use now, once."""
        with self._first:
            incumbent, self._incumbent = self._incumbent, None
            if incumbent is not None:
                self.stage2(incumbent)

    def _forecast_grades(self, read: Sequence[ReadCandidate | Graded]) -> list[Graded]:
        """Return grades of stage 1: the cheap forecast first, the deep one for what it leaves."""
        self._measure_incumbent()
        read = self._forecasts.settle_choices(read)
        usable = {
            candidate.key: candidate.configuration
            for candidate in read
            if isinstance(candidate, ReadCandidate)
        }
        grades: dict[Key, Graded] = {}
        remaining = usable
        for depth in dict.fromkeys((Depth.CAPTURED, Depth(self._how.depth))):
            ranked = self._forecasts.ranked(list(remaining.values()), depth)
            for key, configuration in remaining.items():
                grades[key] = self._grade_forecast(configuration, ranked.get(key))
            remaining = {
                key: configuration
                for key, configuration in remaining.items()
                if grades[key].stage is Stage.PASSED
            }
        for key, configuration in remaining.items():
            grades[key] = self._with_analysis(configuration, grades[key])
        return [
            grades[candidate.key] if isinstance(candidate, ReadCandidate) else candidate
            for candidate in read
        ]

    def _grade_forecast(self, configuration: Configuration, ranked: Ranked | None) -> Graded:
        """Return the grade that a forecast gives."""
        graded = Graded(
            Verdict.NOT_MEASURED.value, Stage.PASSED, PASSED_SCORE, configuration.params
        )
        if ranked is None:
            return replace(graded, reasons=("Nothing can be forecast without running it.",))
        forecast = ranked.forecast
        graded = replace(
            graded,
            forecast_ms=forecast.time_ms,
            forecast_low_ms=optimistic(forecast),
            forecast_high_ms=forecast.high_ms,
        )
        return self._against_best(graded)

    def _against_best(self, graded: Graded) -> Graded:
        """Return the grade, held against the best time."""
        best_ms, low_ms = self._best_ms, graded.forecast_low_ms
        if graded.stage is not Stage.PASSED or best_ms is None or low_ms is None:
            return graded
        if low_ms <= self._how.accept * best_ms:
            return graded
        why = (
            f"It is expected to take {graded.forecast_ms:.4g} ms, and {low_ms:.4g} ms at best; "
            f"the best known takes {best_ms:.4g} ms. It was not measured."
        )
        return replace(
            graded,
            stage=Stage.REJECTED,
            combined_score=grading.rejected_score(low_ms, self._how.accept * best_ms),
            reasons=(why, *graded.reasons),
        )

    def _with_analysis(self, configuration: Configuration, graded: Graded) -> Graded:
        """Return the grade with what analysis says; refused if it cannot run."""
        try:
            _, prospect = self._prepared.analysed(configuration, None, None, None)
        except InputError as error:
            why = hide_private_path(error, configuration.path)
            return refused_grade(Verdict.DOES_NOT_COMPILE, why, params=configuration.params)
        kind, wrong = self._interpreted(configuration)
        if kind is Checked.WRONG:
            where = hide_private_path(wrong, configuration.path)
            why = f"It is wrong in Triton's interpreter, {where}."
            return refused_grade(Verdict.WRONG, why, params=configuration.params)
        result = prospect.result
        if result.verdict is Verdict.DOES_NOT_COMPILE:
            errors = (hide_private_path(error, configuration.path) for error in result.errors)
            return refused_grade(result.verdict, *errors, params=configuration.params)
        return self._explain_grade(graded, result, configuration.path)

    def _interpreted(self, configuration: Configuration) -> tuple[Checked, str]:
        """Run a candidate at small sizes, without a GPU; a recording knows what is right."""
        if self._checker is None:
            return Checked.UNCHECKED, ""
        files = configuration.path, configuration.reference
        return self._checker.check_alone(*files, configuration.params, configuration.shape)

    def _explain_grade(self, graded: Graded, result: Result, path: str) -> Graded:
        characteristics = grading.known_fields(result.analysis, self.device)
        advice = grading.reasons_of(result, self.device, self._how.advise)
        reasons = (*graded.reasons, *(hide_private_path(reason, path) for reason in advice))
        return replace(graded, sol_ms=result.bound.time_ms, reasons=reasons, **characteristics)  # type: ignore[arg-type]

    # ----------------------------------------------------------------------------------- measuring

    @property
    def _is_budget_spent(self) -> bool:
        return self._budget_s is not None and self._spent_s >= self._budget_s

    def _measure_grades(self, candidates: Sequence[ReadCandidate | Graded]) -> list[Graded]:
        """Return grades of stage 2, in the order given."""
        grades: dict[Key, Graded] = {}
        new: dict[Key, Configuration] = {}
        for candidate in candidates:
            if isinstance(candidate, ReadCandidate):
                if (earlier := self._kept.get(candidate.key)) is not None:
                    grades[candidate.key] = earlier
                else:
                    new[candidate.key] = candidate.configuration
        for _ in range(_TRIES):
            for evaluation in self.lab.evaluate_all(self._affordable(new.values())):
                assert isinstance(evaluation.candidate, Configuration)
                grades[candidate_key(evaluation.candidate)] = self._grade_measurement(
                    evaluation.candidate, evaluation
                )
            new = {k: e for k, e in new.items() if k in grades and _is_unstable(grades[k])}
        return [self._kept_or_not(grades, candidate) for candidate in candidates]

    def _kept_or_not(
        self, grades: Mapping[Key, Graded], candidate: ReadCandidate | Graded
    ) -> Graded:
        if isinstance(candidate, Graded):
            return candidate
        if candidate.key in grades:
            return grades[candidate.key]
        passed = Graded(
            Verdict.NOT_MEASURED.value, Stage.PASSED, PASSED_SCORE, candidate.configuration.params
        )
        return _unaffordable(passed)

    def _affordable(self, configurations: Iterable[Configuration]) -> Iterator[Configuration]:
        """Yield candidates, as long as the budget lasts."""
        for configuration in configurations:
            if self._is_budget_spent:
                return
            yield configuration

    def _grade_measurement(self, configuration: Configuration, evaluation: Evaluation) -> Graded:
        """Return the grade of a candidate that was measured, or could not be."""
        params, outcome = configuration.params, evaluation.outcome
        if evaluation.error is not None or outcome is None:
            return self._unmeasured(configuration, evaluation)
        graded = Graded(outcome.verdict.value, Stage.MEASURED, 0.0, params)
        if (
            outcome.verdict.is_right
            and outcome.time_ms is not None
            and evaluation.result is not None
        ):
            graded = self._grade_timed(graded, evaluation.result, outcome.time_ms)
        if outcome.verdict is Verdict.UNSTABLE:
            graded = replace(graded, stage=Stage.PASSED, combined_score=PASSED_SCORE)
        if evaluation.result is not None:
            graded = self._explain_grade(graded, evaluation.result, configuration.path)
        self._note_measurement(candidate_key(configuration), graded, outcome)
        return graded

    def _grade_timed(self, graded: Graded, result: Result, time_ms: float) -> Graded:
        """Return the grade of a correct candidate."""
        sol_ms = result.bound.time_ms
        score = None if result.score is None else result.score.sol_score
        if score is None:
            score = sol_score(time_ms, sol_ms, self._baseline_ms or self._best_ms or time_ms)
        return replace(
            graded,
            combined_score=PASSED_SCORE + score / 2,
            time_ms=time_ms,
            gap=time_ms / sol_ms if sol_ms else None,
            sol_score=score,
        )

    def _unmeasured(self, configuration: Configuration, evaluation: Evaluation) -> Graded:
        error = evaluation.error
        if isinstance(error, NotRecordedError):
            return refused_grade(NOT_RECORDED, str(error), params=configuration.params)
        if isinstance(error, InputError):
            why = hide_private_path(error, configuration.path)
            return refused_grade(Verdict.DOES_NOT_COMPILE, why, params=configuration.params)
        why = str(error or f"{self.device.name} is not in this machine, so nothing is measured.")
        verdict = Verdict.NOT_MEASURED.value
        graded = Graded(verdict, Stage.PASSED, PASSED_SCORE, configuration.params, reasons=(why,))
        if evaluation.result is None:
            return graded
        return self._explain_grade(graded, evaluation.result, configuration.path)

    def _note_measurement(self, key: Key, graded: Graded, outcome: Outcome) -> None:
        """Remember a measurement."""
        cost_s = recorded_cost(outcome, outcome.time_ms or 0.0).gpu_s
        with self._lock:
            self._spent_s += cost_s
            if graded.stage is Stage.MEASURED:
                self._kept[key] = graded
                if len(self._kept) > _MOST_KEPT:
                    self._kept.pop(next(iter(self._kept)))
            if graded.time_ms is not None:
                best_ms = self._best_ms
                self._best_ms = graded.time_ms if best_ms is None else min(best_ms, graded.time_ms)


def _measuring_order(graded: Graded) -> float:
    """Return the lower, the sooner it is measured; what has no forecast comes last."""
    return float("inf") if graded.forecast_ms is None else graded.forecast_ms


def _is_unstable(graded: Graded) -> bool:
    return graded.verdict == Verdict.UNSTABLE.value


def _with_forecast(measured: Graded, forecast: Graded) -> Graded:
    return replace(
        measured,
        forecast_ms=forecast.forecast_ms,
        forecast_low_ms=forecast.forecast_low_ms,
        forecast_high_ms=forecast.forecast_high_ms,
    )


def _unaffordable(graded: Graded) -> Graded:
    return replace(graded, reasons=("The GPU seconds are spent; not measured.", *graded.reasons))
