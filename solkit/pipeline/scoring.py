"""Scoring: how fast a kernel could run, how fast it does run, and what explains the difference."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from solkit.analysis.study import study as study_of
from solkit.core import (
    Device,
    FailedShape,
    KernelFile,
    MeasureSettings,
    Report,
    Result,
    Value,
    Verdict,
)
from solkit.errors import InputError
from solkit.measure.counters.counting import count_launches
from solkit.measure.guarded.session import Session
from solkit.measure.outcomes import PreparedCandidate, score_result
from solkit.measure.timing import protocols
from solkit.pipeline.best_algorithm import with_best
from solkit.pipeline.environment import environment
from solkit.pipeline.forecasts import with_forecasts
from solkit.pipeline.measuring import (
    configuration_of,
    open_bench_for,
    outcomes_of,
    prepared_session,
    wants_measurement,
)
from solkit.pipeline.studying import Shape, Source, analyser_for, plan_study
from solkit.pipeline.target import target_device
from solkit.roofline.cases import unmeasured
from solkit.spans import span


def score(
    path: Source,
    *,
    device: str | Device | None = None,
    reference: str | os.PathLike[str] | None = None,
    shapes: Sequence[Shape] | None = None,
    params: Mapping[str, Value] | None = None,
    precision: str | None = None,
    settings: MeasureSettings | None = None,
    measure: bool | None = None,
) -> Report:
    """Bound, analyse and, on a GPU, measure a kernel at each shape.

    Each measurement is saved, as a `solkit.core.Outcome`, before the next one starts.

    Args:
        path: a kernel file, or its path.
        device: the target; by default the first GPU of this machine, else `DEFAULT_DEVICE`.
        reference: as for `load`.
        shapes: sizes to override, one result each; the file's own shapes otherwise.
        params: the candidate's parameters to override.
        precision: as for `bound`; that of the settings by default.
        settings: how to measure. A sandbox also isolates reading, tracing and compiling.
        measure: ``None`` measures if the target is a GPU of this machine.

    Raises:
        InputError: the file, the device, a shape, a parameter or a setting is invalid, or the
            settings ask for both counters and a sandbox: Nsight Compute runs in no sandbox.
        UnsupportedError: this machine lacks the GPU to measure on, or cannot run the sandbox.
        TraceError: a measurement could not be saved.
    """
    how = settings or MeasureSettings()
    if how.counters and how.sandbox:
        raise InputError("--ncu and --sandbox: Nsight Compute cannot count inside the sandbox")
    l2 = protocols.find_protocol(how.protocol).l2
    to = target_device(device, settings)
    plan = plan_study(path, reference, shapes, params=params, groups="")
    files = [file for file in (plan.path, plan.reference) if file is not None]
    with (
        prepared_session(measure, to, how, files) as session,
        ThreadPoolExecutor(1, "solkit-forecasting") as pool,
    ):
        with analyser_for(to, how) as analyser, span("study"):
            study = study_of(analyser, plan)
        results = [unmeasured(case, to, precision or how.precision, l2) for case in study.cases]
        failed = study.failed
        # reading the model takes seconds, in which the candidate can be measured
        forecasting = pool.submit(_forecast_results, study.kernel, results, to)
        if wants_measurement(measure, to, study):
            with span("measure"):
                measured = _measure_shapes(study.kernel, results, to, how, params or {}, session)
            failed += tuple(shape for shape in measured if isinstance(shape, FailedShape))
        else:
            measured = list(results)
        results = [
            replace(result, forecast=other.forecast, analysis=other.analysis)
            for result, other in zip(measured, forecasting.result(), strict=True)
            if isinstance(result, Result)
        ]
    if how.counters:
        results = [count_launches(study.kernel, result, to, how.time_limit_s) for result in results]
    report = Report(environment(), study.kernel, to, tuple(results), failed)
    if any(result.verdict is Verdict.IMPOSSIBLE for result in results):  # a plan may refute that
        return with_best(report, precision=precision or how.precision, sandbox=how.sandbox)
    return report


def _forecast_results(file: KernelFile, results: Sequence[Result], device: Device) -> list[Result]:
    with span("forecasts"):
        return with_forecasts(file, results, device)


def _measure_shapes(
    file: KernelFile,
    results: Sequence[Result],
    device: Device,
    settings: MeasureSettings,
    params: Mapping[str, Value],
    session: Session | None,
) -> list[Result | FailedShape]:
    """Return each result with the candidate's outcome, or why its shape cannot be measured.

    Raises:
        InputError: none can be measured.
    """
    configurations = [configuration_of(file, result.shape, params) for result in results]
    prospects = [
        (configuration, PreparedCandidate(file, result))
        for configuration, result in zip(configurations, results, strict=True)
    ]
    with open_bench_for(device, settings, prospects, session) as bench:
        outcomes = outcomes_of(bench, configurations)
    scored_results: list[Result | FailedShape] = [
        FailedShape(result.shape, outcome.message or "")
        if outcome.verdict is Verdict.NOT_MEASURED
        else score_result(result, outcome, device)
        for result, outcome in zip(results, outcomes, strict=True)
    ]
    failed = [shape for shape in scored_results if isinstance(shape, FailedShape)]
    if len(failed) == len(scored_results):
        raise InputError(failed[0].error)
    return scored_results
