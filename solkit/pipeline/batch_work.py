"""The kernels of a manifest, looked at before any GPU time is spent on them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from solkit.analysis.analyser import Analyser
from solkit.analysis.pool import usable_cores
from solkit.core import (
    Device,
    MeasureSettings,
    Params,
    Triaged,
    TuneSettings,
    Value,
    canonical,
)
from solkit.core.progress import tell
from solkit.core.quantities import settings_text
from solkit.errors import InputError, ShapeError
from solkit.measure.benches import Bench, RecordedBench
from solkit.pipeline.history import remembered
from solkit.pipeline.studying import analyser_for
from solkit.pipeline.tuning_context import TuningContext, live_ground, recorded_ground

if TYPE_CHECKING:
    from solkit.tuner.database import Database
    from solkit.tuner.manifest import Manifest, ManifestEntry, Workload
    from solkit.tuner.tuning_problem import TuningProblem

_DESCRIBED = 16  # kernels whose files are read at once: to import one takes seconds
_TOGETHER = 4  # shapes that are looked at at once, or one for each core: they wait for each other

Shape = Mapping[str, Value]


@dataclass(frozen=True)
class Work:
    """One kernel at one shape.

    Attributes:
        entry: the manifest's.
        ground: what may vary, and what is believed.
        triaged: whether it is worth tuning.
        held_out: shapes that check its winner, each with whether that must not be slower there.
        first: parameters to measure right after the default.
    """

    entry: ManifestEntry
    ground: TuningContext
    triaged: Triaged
    held_out: tuple[tuple[Shape, bool], ...] = ()
    first: tuple[Params, ...] = ()

    @property
    def name(self) -> str:
        """Name for people."""
        sizes = settings_text(self.ground.default.shape)
        return f"{self.entry.title} at {sizes}" if sizes else self.entry.title

    def task(self, how: TuneSettings) -> TuningProblem:
        """Return the task to tune it."""
        return self.ground.task(how, self.triaged.calls, self.first)


def survey_manifest(
    manifest: Manifest,
    device: Device,
    bench: Bench | None,
    how: TuneSettings,
    database: Database | None,
    notes: list[str],
) -> list[Work]:
    """List every kernel and shape of a manifest that can be tuned; the others go to `notes`.

    Raises:
        InputError: none can.
    """
    from solkit.tuner.emitters import parse_target

    entries = manifest.tunable_kernels()
    for entry in entries:
        for target in entry.emit:
            parse_target(target)
    notes.extend(manifest.left_out())
    if isinstance(bench, RecordedBench):
        cases = _survey_entries(
            entries, lambda entry: _recorded_shapes(bench, entry, how), notes, together=1
        )
    else:
        with analyser_for(device, MeasureSettings()) as analyser:
            together = max(_TOGETHER, usable_cores())
            cases = _survey_entries(
                entries, lambda entry: _live_shapes(analyser, entry, how), notes, together
            )
    if not cases:
        raise InputError(f"{manifest.path}: no kernel can be tuned. {' '.join(notes)}")
    looked = _Survey(manifest, device, how, database, notes)
    shapes: dict[int, list[Shape]] = {}
    for entry, (_, ground, _) in cases:
        shapes.setdefault(entry.line, []).append(ground.default.shape)
    return [looked.work(entry, case, shapes[entry.line]) for entry, case in cases]


Found = tuple["Workload", TuningContext, tuple[Shape, ...]]
"""A shape, its ground, and the held-out shapes of the kernel."""


def _survey_entries(
    entries: Sequence[ManifestEntry],
    look: Callable[
        [ManifestEntry], list[tuple[Workload, Callable[[], TuningContext], tuple[Shape, ...]]]
    ],
    notes: list[str],
    together: int,
) -> list[tuple[ManifestEntry, Found]]:
    """Return the grounds of all entries, in order; what fails is left out, with a note."""
    pending = []
    with ThreadPoolExecutor(_DESCRIBED, thread_name_prefix="solkit-batch") as pool:
        looks = [pool.submit(look, entry) for entry in entries]
    for entry, found_out in zip(entries, looks, strict=True):
        try:
            pending += [(entry, shape_look) for shape_look in found_out.result()]
        except InputError as error:
            notes.append(f"{entry.title} is left out: {error}")
    done = itertools.count(1)

    def survey_shape(
        shape_look: tuple[Workload, Callable[[], TuningContext], tuple[Shape, ...]],
    ) -> TuningContext | str:
        try:
            return shape_look[1]()
        except ShapeError:  # a slip in the manifest, not a shape that cannot be tuned
            raise
        except InputError as error:
            return str(error)
        finally:
            tell("shapes looked at", next(done), len(pending))

    cases = []
    with ThreadPoolExecutor(together, thread_name_prefix="solkit-batch") as pool:
        grounds = pool.map(survey_shape, [shape_look for _, shape_look in pending])
        for (entry, (shape, _, held_out)), outcome in zip(pending, grounds, strict=True):
            if isinstance(outcome, str):
                notes.append(f"{entry.title} at {canonical(shape.sizes)} is left out: {outcome}")
            else:
                cases.append((entry, (shape, outcome, held_out)))
    return cases


Looks = list[tuple["Workload", Callable[[], TuningContext], tuple[Shape, ...]]]


def _live_shapes(analyser: Analyser, entry: ManifestEntry, how: TuneSettings) -> Looks:
    from solkit.tuner.manifest import Workload

    file = analyser.describe(entry.path, entry.reference).result()
    shapes = entry.shapes or tuple(Workload(dict(sizes)) for sizes in file.problem.shapes)
    held_out = file.problem.held_out_shapes if entry.held_out is None else entry.held_out

    def survey_later(shape: Workload) -> Callable[[], TuningContext]:
        own = _with_params(how, shape, entry)
        return lambda: live_ground(analyser, entry.path, entry.reference, shape.sizes, own)

    return [(shape, survey_later(shape), tuple(held_out)) for shape in shapes]


def _recorded_shapes(bench: RecordedBench, entry: ManifestEntry, how: TuneSettings) -> Looks:
    from solkit.tuner.manifest import Workload

    def survey_later(shape: Workload) -> Callable[[], TuningContext]:
        own = _with_params(how, shape, entry)
        return lambda: recorded_ground(bench, entry.path, entry.reference, shape.sizes, own)

    shapes = entry.shapes or (Workload({}),)
    return [(shape, survey_later(shape), entry.held_out or ()) for shape in shapes]


def _with_params(how: TuneSettings, shape: Workload, entry: ManifestEntry) -> TuneSettings:
    """Return the settings with the parameters in use at a shape, and those that may vary."""
    return replace(how, params={**how.params, **shape.params}, varied=entry.varied)


@dataclass(frozen=True)
class _Survey:
    """Knowledge of the grounds besides themselves."""

    manifest: Manifest
    device: Device
    how: TuneSettings
    database: Database | None
    notes: list[str]

    def work(self, entry: ManifestEntry, case: Found, tuned: Sequence[Shape]) -> Work:
        """Return a shape of an entry, which is tuned at some shapes."""
        from solkit.tuner import triage
        from solkit.tuner.ask_tell import PlanPrior

        shape, ground, held_out = case
        plan = ground.prior.plan if isinstance(ground.prior, PlanPrior) else None
        measured: dict[str, float] = {}
        ground, first = self._warm_start(entry, ground, measured)
        facts = triage.TriageInputs(
            own=ground.default.params,
            choices=ground.space.size if ground.space.points is None else len(ground.space.points),
            sol_ms=ground.sol_ms,
            plan=plan,
            measured_ms=measured.get(canonical(ground.default.params)),
            profiled_ms=shape.time_ms,
            least_ms=min(measured.values(), default=None),
        )
        triaged = triage.triage_kernel(
            entry.title, ground.default.shape, shape.calls, facts, self.how.stop_at
        )
        return Work(entry, ground, triaged, self._held_out_checks(ground, held_out, tuned), first)

    def _warm_start(
        self, entry: ManifestEntry, ground: TuningContext, measured: dict[str, float]
    ) -> tuple[TuningContext, tuple[Params, ...]]:
        """Return the ground with what the database knows, and what to measure first."""
        from solkit.tuner.transferred_choices import ChoicesElsewhere

        elsewhere = ChoicesElsewhere(entry.choices, entry.names)
        history = remembered(ground, self.database, self.device.key, elsewhere)
        if history.note and history.note not in self.notes:
            self.notes.append(history.note)
        measured.update((canonical(params), ms) for params, ms in history.measured)
        return history.ground, history.first

    def _held_out_checks(
        self, ground: TuningContext, held_out: tuple[Shape, ...], tuned: Sequence[Shape]
    ) -> tuple[tuple[Shape, bool], ...]:
        """Return the held-out shapes, each with whether this shape's winner would be used there."""
        from solkit.tuner.holdout import nearest_shape

        strict = self.manifest.limits.held_out == "all"
        mine = tuned.index(ground.default.shape)
        return tuple((sizes, strict or nearest_shape(sizes, tuned) == mine) for sizes in held_out)
