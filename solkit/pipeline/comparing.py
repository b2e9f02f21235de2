"""Comparing candidates, timed in turns on the same GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from solkit.analysis.analyser import Analyser
from solkit.analysis.study import StudyPlan
from solkit.analysis.study import study as study_of
from solkit.core import (
    Comparison,
    ComparisonReport,
    Configuration,
    Device,
    KernelFile,
    MeasureSettings,
    Outcome,
    Result,
    Study,
    Value,
    Verdict,
)
from solkit.errors import InputError, MemoryLimitError
from solkit.measure.benches.guarded import GuardedBench
from solkit.measure.outcomes import PreparedCandidate, protocol_of, score_result
from solkit.measure.timing import protocols
from solkit.pipeline.environment import environment
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

_PREPARED = 2
"""Candidates' processes that warm up at once: more would still do so when the base is timed."""


def compare(
    base: Source,
    *candidates: Source,
    device: str | Device | None = None,
    reference: str | os.PathLike[str] | None = None,
    shapes: Sequence[Shape] | None = None,
    base_params: Mapping[str, Value] | None = None,
    params: Mapping[str, Value] | None = None,
    settings: MeasureSettings | None = None,
) -> ComparisonReport:
    """Check candidates and their base, time each, then all of them in turns: which one is faster?

    Each measurement and each comparison is saved, as a `solkit.core.Outcome`, before the next one
    starts. `solkit.measure.timing.comparison_statistics` describes the ratio and its interval.

    Args:
        base: the kernel file, or its path, that the others are compared with.
        candidates: theirs; one may be the base's, with other parameters.
        device: the target, which must be a GPU of this machine; by default the first one.
        reference: the file with the reference, for all of them; the base's by default.
        shapes: as for `score`; the base's own by default.
        base_params: the base's parameters to override.
        params: the candidates' parameters to override.
        settings: how to measure, as for `score`.

    Raises:
        InputError: as for `score`, or there is no candidate.
        MemoryLimitError: the problem does not fit into the GPU's memory at a shape.
        UnsupportedError: this machine lacks the target, or cannot run the sandbox.
        TraceError: a measurement could not be saved.
    """
    how = settings or MeasureSettings()
    to = target_device(device, settings)
    chosen = [base_params or {}, *[params or {} for _ in candidates]]
    plans = [
        plan_study(source, None, shapes, params=own)
        for source, own in zip((base, *candidates), chosen, strict=True)
    ]
    return _compare_plans(plans, chosen, reference, to, how)


def compare_in_turns(
    base: Configuration, rival: Configuration, device: Device, settings: MeasureSettings
) -> ComparisonReport:
    """Compare two that a search has measured: as `compare`, but neither is timed on its own first.

    Both are checked as there, and their times in turns are held against the wall clock.

    Raises:
        SolkitError: as for `compare`.
    """
    plans = [plan_study(one.path, None, [base.shape], params=one.params) for one in (base, rival)]
    chosen = [base.params, rival.params]
    return _compare_plans(plans, chosen, base.reference, device, settings, alone=False)


def _compare_plans(
    plans: Sequence[StudyPlan],
    chosen: Sequence[Mapping[str, Value]],
    reference: str | os.PathLike[str] | None,
    to: Device,
    how: MeasureSettings,
    *,
    alone: bool = True,
) -> ComparisonReport:
    """Return the comparison of the first plan's candidate with the others'.

    Args:
        plans: of the base and of each candidate.
        chosen: the parameters to override in each.
        reference: the file with the reference, for all of them.
        to: the GPU.
        how: how to measure.
        alone: whether each is timed on its own first.
    """
    protocols.find_protocol(how.protocol)
    paths = [plan.path for plan in plans]
    with prepared_session(None, to, how, paths, count=_PREPARED) as session:
        with analyser_for(to, how) as analyser, span("studying"):
            studies = _study_rivals(analyser, plans, reference)
        groups = [
            list(_prepare_at_shape(case.shape, studies, chosen, to, how))
            for case in studies[0].cases
        ]
        pairs = [pair for group in groups for pair in group]
        with open_bench_for(to, how, pairs, session) as bench:
            comparisons = [
                comparison
                for group in groups
                for comparison in _compare_prepared(bench, group, alone)
            ]
    first, *others = (study.kernel for study in studies)
    failed = tuple(failure for study in studies for failure in study.failed)
    return ComparisonReport(environment(), first, tuple(others), to, tuple(comparisons), failed)


def _prepare_at_shape(
    shape: Shape,
    studies: Sequence[Study],
    params: Sequence[Mapping[str, Value]],
    device: Device,
    settings: MeasureSettings,
) -> Iterator[_Known]:
    """Yield what to measure of each study that did not fail at a shape."""
    l2 = protocols.find_protocol(settings.protocol).l2
    for study, own in zip(studies, params, strict=True):
        for case in study.cases:
            if case.shape == shape:
                result = unmeasured(case, device, settings.precision, l2)
                prospect = PreparedCandidate(study.kernel, result)
                yield configuration_of(study.kernel, shape, own), prospect


_Known = tuple[Configuration, PreparedCandidate]


def _compare_prepared(
    bench: GuardedBench, prospects: Sequence[_Known], alone: bool
) -> Iterator[Comparison]:
    """Measure each candidate on its own, unless that is left out, then in turns with the first."""
    configurations = [configuration for configuration, _ in prospects]
    if alone:
        outcomes = _measure_alone(bench, configurations)
    else:
        outcomes = [bench.draft(configuration) for configuration in configurations]
    results = [
        score_result(prospect.result, outcome, bench.device)
        for (_, prospect), outcome in zip(prospects, outcomes, strict=True)
    ]
    with span("measuring alternating"):
        turns = bench.compared(configurations, outcomes)
    for (_, prospect), result, turn in zip(prospects[1:], results[1:], turns, strict=True):
        yield _comparison(prospect.file, results[0], result, turn)


def _measure_alone(bench: GuardedBench, configurations: Sequence[Configuration]) -> list[Outcome]:
    with span("measuring alone"):
        outcomes = outcomes_of(bench, configurations)
    if isinstance(error := bench.error_of(configurations[0]), MemoryLimitError):
        raise error  # no candidate's fault: the base alone does not fit
    for outcome in outcomes:
        if outcome.verdict is Verdict.NOT_MEASURED:
            raise InputError(outcome.message or "")
    return outcomes


def _comparison(file: KernelFile, base: Result, candidate: Result, turns: Outcome) -> Comparison:
    comparison = turns.comparison
    assert comparison is not None
    return Comparison(
        file,
        base,
        candidate,
        comparison.difference,
        comparison.ratio,
        median(comparison.samples_ms) if comparison.samples_ms else None,
        median(turns.samples_ms) if turns.samples_ms else None,
        protocol_of(turns),
        turns.evidence,
    )


def _study_rivals(
    analyser: Analyser, plans: Sequence[StudyPlan], reference: str | os.PathLike[str] | None
) -> list[Study]:
    """Study several candidates, for the first one's problem and at its shapes."""
    if len(plans) < 2:
        raise InputError("candidates: expected at least one beside the base, got none")
    studies: list[Study] = []
    problem = None if reference is None else os.fspath(reference)
    for plan in plans:
        own = None if plan.path == problem else problem
        shapes = [case.shape for case in studies[0].cases] if studies else plan.shapes
        study = study_of(analyser, replace(plan, reference=plan.reference or own, shapes=shapes))
        wants_measurement(True, analyser.device, study)
        if not studies:
            problem = study.kernel.problem.path
        studies.append(study)
    return studies
