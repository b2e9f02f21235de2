"""Changes of kernels by a compiler, a card, a revision or a parameter, without a GPU.

::

    kernel files ─► choices ─┬─ study on the first side ──┐
                             └─ study on the second side ─┴─► changes ─► worst first

Each side has processes of its own. Nothing is measured: times are the kernel model's, and the
surrogate's where it is installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from solkit.analysis.pool import AwaitedFutures, usable_cores
from solkit.analysis.sides import Place, study_again, study_first
from solkit.analysis.study import StudyPlan, describe
from solkit.core import (
    Analysis,
    CandidateDiff,
    Case,
    Change,
    Diff,
    Forecast,
    KernelFile,
    Standing,
    Study,
    progress,
)
from solkit.errors import InputError, SolkitError
from solkit.pipeline.diff_candidates import (
    Choice,
    TunedConfigs,
    explain_misfit,
    own_choices,
    read_tuned,
)
from solkit.pipeline.diff_sides import DiffAxes, World, opened_places, pairs_of_worlds
from solkit.pipeline.forecasts import with_forecasts
from solkit.pipeline.studying import STUDY_LIMIT_S, Shape
from solkit.roofline.cases import unmeasured
from solkit.roofline.kernel.changes import changes_between, guessed_alone, modelled_time_ms

_SAME = 0.005
"""Share by which forecasts must differ to count as changed."""

_Kernel = str | os.PathLike[str]


@dataclass(frozen=True)
class DiffSettings:
    """Choice of what is compared of each kernel file.

    Attributes:
        shapes: sizes to override; ``None`` for the file's own shapes.
        first: whether only the first shape of a file is compared.
        configurations: of each file and shape: its own, and others drawn from its space.
        tuned: places of tuned configurations, which replace the file's own.
        names: by a name in a tuned file, the kernel's name of a size or parameter.
        forecasts: whether the surrogate forecasts.
        limit_s: seconds for a candidate at one shape.
        cache: whether analyses are kept on disk.
    """

    shapes: Sequence[Shape] | None = None
    first: bool = False
    configurations: int = 1
    tuned: Sequence[str] = ()
    names: Mapping[str, str] | None = None
    forecasts: bool = True
    limit_s: float = STUDY_LIMIT_S
    cache: bool = True


def diff(
    kernels: Sequence[_Kernel],
    axes: DiffAxes,
    reference: str | os.PathLike[str] | None = None,
    settings: DiffSettings | None = None,
) -> list[Diff]:
    """Compare kernels on two sides: compilers, devices, revisions or parameters.

    Args:
        kernels: kernel files.
        axes: what differs between the sides.
        reference: the file with the reference, if they lack one.
        settings: what is compared of each.

    Returns:
        A diff for each pair of sides; the worst candidate first in each.

    Raises:
        InputError: a side, a file or a configuration is invalid.
    """
    how = settings or DiffSettings()
    if not kernels:
        raise InputError("expected at least one kernel file to compare; got none")
    files = [os.fspath(kernel) for kernel in kernels]
    problem = None if reference is None else os.fspath(reference)
    tuned = [read_tuned(place, how.names or {}) for place in how.tuned]
    return [_diff_pair(pair, files, problem, how, tuned) for pair in pairs_of_worlds(axes)]


def _diff_pair(
    worlds: tuple[World, World],
    files: Sequence[str],
    reference: str | None,
    how: DiffSettings,
    tuned: Sequence[TunedConfigs],
) -> Diff:
    rows: list[CandidateDiff] = []
    failed: dict[str, str] = {}
    with opened_places(worlds, files[0], how.limit_s, how.cache) as places:
        for place in places:
            place.analyser.start()
        comparison = _Comparison(worlds, (places[0], places[1]), reference, how, tuned)
        for number, (path, result) in enumerate(_all_compared(comparison, files), 1):
            progress.tell("files compared", number, len(files))
            if isinstance(result, SolkitError):
                failed[path] = str(result)
            else:
                rows += result
    if not rows and failed and len(files) == 1:
        raise InputError(next(iter(failed.values())))
    rows.sort(key=CandidateDiff.gravity)
    return Diff(worlds[0].side, worlds[1].side, tuple(rows), failed)


def _all_compared(
    comparison: _Comparison, files: Sequence[str]
) -> Iterator[tuple[str, list[CandidateDiff] | SolkitError]]:
    """Yield each file's candidates, or why there are none, in the files' order."""
    with ThreadPoolExecutor(usable_cores(), "solkit-comparing") as pool:
        futures = [pool.submit(comparison.of_file, path) for path in files]
        try:
            for path, future in zip(files, futures, strict=True):
                try:
                    yield path, future.result()
                except SolkitError as error:
                    yield path, error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            comparison.give_up()
            raise


class _Comparison:
    """Compares files on two sides, from several threads."""

    def __init__(
        self,
        worlds: tuple[World, World],
        places: tuple[Place, Place],
        reference: str | None,
        how: DiffSettings,
        tuned: Sequence[TunedConfigs],
    ) -> None:
        self._worlds, self._places, self._how = worlds, places, how
        self._reference, self._tuned = reference, tuned
        self._begun = AwaitedFutures()
        # the problem may depend on the device and on the file's text, not on the compiler
        self._shares = (
            worlds[0].device == worlds[1].device and worlds[0].revision == worlds[1].revision
        )

    def give_up(self) -> None:
        """Cancel what is under way."""
        self._begun.give_up()

    def of_file(self, path: str) -> list[CandidateDiff]:
        """Return the candidates of a file.

        Raises:
            SolkitError: the file cannot be used.
        """
        first = self._places[0]
        located, reference = first.located(path), first.located(self._reference)
        assert located is not None
        kernel = describe(first.analyser, located, reference)
        rows: list[CandidateDiff] = []
        for choice in self._choices(kernel):
            plan = StudyPlan(path, self._reference, choice.shapes, choice.params)
            rows += self._of_choice(plan, choice)
        return rows

    def _choices(self, kernel: KernelFile) -> list[Choice]:
        if self._tuned:
            choices = [choice for source in self._tuned for choice in source.choices(kernel)]
            if not choices:
                raise InputError(explain_misfit(self._tuned, kernel))
            return choices
        shapes = self._how.shapes
        if self._how.first:
            shapes = (kernel.problem.shapes if shapes is None else shapes)[:1]
        return own_choices(self._places[0].analyser, kernel, shapes, self._how.configurations)

    def _of_choice(self, plan: StudyPlan, choice: Choice) -> list[CandidateDiff]:
        first, second = self._places
        before = study_first(first, plan, self._begun)
        after = (
            study_again(second, plan, before, self._begun)
            if self._shares
            else study_first(second, plan, self._begun)
        )
        if len(before.cases) != len(after.cases):
            failure = (*before.failed, *after.failed)[0]
            raise InputError(f"{plan.path}: a shape fails on one side alone: {failure.error}")
        standings = [
            self._standings(study, world) for study, world in zip((before, after), self._worlds)
        ]
        return [
            self._row(plan, choice, cases, states)
            for cases, states in zip(
                zip(before.cases, after.cases, strict=True), zip(*standings, strict=True)
            )
        ]

    def _row(
        self,
        plan: StudyPlan,
        choice: Choice,
        cases: tuple[Case, Case],
        states: tuple[Standing, Standing],
    ) -> CandidateDiff:
        before, after = cases
        changes = changes_between(before.analysis, after.analysis)
        notes = guessed_alone(before.analysis, after.analysis)
        if not notes:
            changes += tuple(_forecast_changes(states))
        own = {n: v for n, v in before.params.items() if n not in self._places[0].side.params}
        return CandidateDiff(
            plan.path,
            os.path.relpath(plan.path),
            dict(before.shape),
            own,
            *states,
            changes,
            choice.chosen_by,
            notes,
        )

    def _standings(self, study: Study, world: World) -> list[Standing]:
        forecasts: Sequence[Forecast | None] = [None] * len(study.cases)
        if self._how.forecasts:
            results = [unmeasured(case, world.device, "tolerance", "cold") for case in study.cases]
            foretold = with_forecasts(study.kernel, results, world.device)
            forecasts = [result.forecast for result in foretold]
        return [
            replace(_standing_of(case.analysis), forecast=forecast)
            for case, forecast in zip(study.cases, forecasts, strict=True)
        ]


def _standing_of(analysis: Analysis) -> Standing:
    facts = [kernel.facts for kernel in analysis.own]
    errors = [kernel.error for kernel in analysis.kernels if kernel.error]
    error = errors[0] if errors else (analysis.notes or ("",))[0] if analysis.failure else ""
    time_ms = modelled_time_ms(analysis)
    unknown = ""
    if not error and time_ms is None:
        notes = [*analysis.notes, *(note for fact in facts for note in fact.notes)]
        unknown = notes[0] if notes else f"not analysed: {analysis.status.value}"
    return Standing(
        time_ms,
        None,
        max((f.registers for f in facts if f.registers is not None), default=None),
        max((f.spills for f in facts if f.spills is not None), default=None),
        max((f.shared_bytes for f in facts if f.shared_bytes is not None), default=None),
        error,
        unknown,
    )


def _forecast_changes(states: tuple[Standing, Standing]) -> Iterator[Change]:
    """Yield the change of the forecast, if the surrogate trusts itself on both sides."""
    one, other = (state.forecast for state in states)
    if not (one and other) or one.abstains or other.abstains:
        return
    if not (one.time_ms and other.time_ms):
        return
    factor = other.time_ms / one.time_ms
    if abs(factor - 1) > _SAME:
        words = f"forecast {factor:.2f} times as long"
        yield Change("forecast", "", "", one.time_ms, other.time_ms, factor > 1, factor, words)
