"""Ground of tuning one kernel at one shape: its space, its speed of light, what is believed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from solkit.analysis.analyser import Analyser
from solkit.collect import Workload, recorded_workloads
from solkit.core import (
    Configuration,
    KernelFile,
    Outcome,
    Params,
    Space,
    TuneSettings,
    Value,
    canonical,
)
from solkit.core.quantities import settings_text
from solkit.datasets.kernels import kernel_at_path, kernel_of_file
from solkit.errors import InputError, NotRecordedError, ParamsError, ShapeError
from solkit.measure.benches import RecordedBench
from solkit.measure.benches.recorded import list_values
from solkit.pipeline.studying import Shape
from solkit.roofline.cases import bound_of_case, deployed_protocol

if TYPE_CHECKING:
    from solkit.tuner.search import Prior
    from solkit.tuner.tuning_problem import TuningProblem

_PLANNED = 24
"""Candidates that the surrogate's plan lowers at the least: it may measure as many."""


@dataclass(frozen=True)
class TuningContext:
    """One kernel at one shape, before any measurement.

    Attributes:
        name: the kernel file, or the recorded kernel's name.
        kernel_id, problem_id: as in `solkit.core.Outcome`.
        shape: every size.
        default: the kernel at that shape with the parameters in use.
        space: what may be chosen instead.
        sol_ms: the speed of light; ``None`` if unknown.
        prior: what is believed; ``None`` for nothing.
        notes: what limits this, each a sentence.
    """

    name: str
    kernel_id: str
    problem_id: str
    shape: Mapping[str, Value]
    default: Configuration
    space: Space
    sol_ms: float | None = None
    prior: Prior | None = None
    notes: tuple[str, ...] = ()

    def task(
        self, how: TuneSettings, weight: float = 1.0, first: Sequence[Mapping[str, Value]] = ()
    ) -> TuningProblem:
        """Return the task to tune it; `first` is measured right after the default."""
        from solkit.tuner.early_stopping import TaskSettings
        from solkit.tuner.tuning_problem import TuningProblem

        settings = TaskSettings(stop_at=how.stop_at, least_gain=how.least_gain, seed=how.seed)
        return TuningProblem(
            self.name,
            self.default,
            self.space,
            sol_ms=self.sol_ms,
            prior=self.prior,
            first=[params for params in first if params in self.space],
            weight=weight,
            settings=settings,
        )

    def holds(self, row: Outcome) -> bool:
        """Tell whether an outcome is of this kernel at this shape."""
        return (row.kernel_id, row.problem_id) == (self.kernel_id, self.problem_id)


def live_ground(
    analyser: Analyser, path: str, reference: str | None, shape: Shape | None, how: TuneSettings
) -> TuningContext:
    """Return the ground of a kernel file, for the analyser's device.

    Raises:
        InputError: the file, its shape or a parameter is invalid; the messages name valid ones.
    """
    from solkit.surrogate.ranking import MOST_POINTS

    file = analyser.describe(path, reference).result()
    own = _params_in_use(file, path, how.params)
    notes: list[str] = []
    if shape is None:
        shape = file.problem.shapes[0]
        if (others := len(file.problem.shapes) - 1) > 0:
            sizes = settings_text(shape)
            notes.append(f"Tuned at the first shape of the file ({sizes}), of {others + 1}.")
    future = analyser.points(path, reference, shape, MOST_POINTS, how.seed)
    points = _may_vary(future.result(), own, how.varied)
    space = Space.of_points([*points, own] if own not in points else points)
    if space.size == 1:
        notes.append(f"{path} has no SPACE, so there is nothing to choose: declare one.")
    kernel = kernel_of_file(file)
    whole = file.problem.whole_shape(shape)
    default = Configuration(path, file.candidate.name, shape, own, _separate_reference(file))  # type: ignore[union-attr]
    ground = TuningContext(
        name=path,
        kernel_id=kernel.kernel_id,
        problem_id=kernel.problem_id(whole),
        shape=whole,
        default=default,
        space=space,
        sol_ms=_speed_of_light_ms(analyser, path, reference, shape, notes),
    )
    ranks = how.prior and space.size > 1 and ground.sol_ms is not None
    prior = _plan_prior(analyser, ground, reference, notes) if ranks else None
    return replace(ground, prior=prior, notes=tuple(notes))


def _may_vary(
    points: Sequence[Params], own: Params, varied: Sequence[str] | None
) -> Sequence[Params]:
    """Return the points that differ from those in use by parameters that may vary alone."""
    if varied is None:
        return points
    fixed = {name: value for name, value in own.items() if name not in varied}
    return [p for p in points if all(p.get(name) == value for name, value in fixed.items())]


def _separate_reference(file: KernelFile) -> str | None:
    """Return the file with the reference, if that is another one."""
    assert file.candidate is not None
    return file.problem.path if file.candidate.path != file.problem.path else None


def _params_in_use(file: KernelFile, path: str, params: Shape) -> dict[str, Value]:
    if file.candidate is None:
        raise InputError(f"{path} holds no kernel to tune")
    own = dict(file.candidate.params)
    for name in params:
        if name not in own:
            valid = ", ".join(own) or "none"
            raise ParamsError(f"{path} has no parameter {name!r}; its parameters are: {valid}")
    return {**own, **params}


def _speed_of_light_ms(
    analyser: Analyser, path: str, reference: str | None, shape: Shape, notes: list[str]
) -> float | None:
    why, to = "its reference does nothing that can be counted", analyser.device
    try:
        case = analyser.problem(path, reference, shape).result()
        if sol_ms := bound_of_case(case, to, "tolerance", deployed_protocol(case, to)).time_ms:
            return sol_ms
    except ShapeError:  # a size that the problem does not have is no problem without a bound
        raise
    except InputError as error:
        why = str(error)
    notes.append(f"The problem has no speed of light, so candidates are not ranked: {why}.")
    return None


def _plan_prior(
    analyser: Analyser, ground: TuningContext, reference: str | None, notes: list[str]
) -> Prior | None:
    """Return the surrogate's plan, or else the kernel model's; ``None`` if neither has one."""
    from solkit.pipeline.shipped_surrogate import shipped_model
    from solkit.surrogate.ranking import Request, rank
    from solkit.tuner.ask_tell import PlanPrior

    path = ground.default.path
    points = {path: list(ground.space.walk())}
    request = Request([path], reference, [ground.default.shape], points, _PLANNED)
    try:
        (plan,) = rank(request, analyser, shipped_model())
    except InputError as error:
        notes.append(f"Nothing is known before the first measurement: {error}")
        return None
    notes.extend(plan.notes)
    return PlanPrior(plan)


# -------------------------------------------------------------------------------------- recordings


def recorded_ground(
    bench: RecordedBench, what: str, reference: str | None, shape: Shape | None, how: TuneSettings
) -> TuningContext:
    """Return the ground of a recorded kernel.

    Args:
        bench: the recording.
        what: the kernel's file, id or name.
        reference: the file with the reference, if the file lacks one.
        shape: sizes that pick one of the recorded shapes.
        how: `TuneSettings.params` picks the recorded parameters that are in use.

    Raises:
        NotRecordedError: there is no such kernel or shape, or there are several.
        ParamsError: the parameters in use are not recorded.
    """
    cells = list(recorded_workloads(bench.recording))
    kernels = {cell.kernel_id: cell.name for cell in cells}
    kernel_id = _recorded_kernel_id(what, reference, kernels)
    cell = _cell_at_shape(shape, [cell for cell in cells if cell.kernel_id == kernel_id])
    rows = [row for row in bench.recording if _is_row_of(row, cell)]
    bound_ms = next((row.bound_ms for row in rows if row.bound_ms is not None), None)
    default = replace(cell.default, params=recorded_default(rows, cell.space, how.params))
    space = cell.space
    if how.varied is not None:
        space = Space.of_points(_may_vary(list(space.walk()), default.params, how.varied))
    return TuningContext(
        name=what,
        kernel_id=cell.kernel_id,
        problem_id=cell.problem_id,
        shape=cell.default.shape,
        default=default,
        space=space,
        sol_ms=bound_ms,
    )


def _recorded_kernel_id(what: str, reference: str | None, kernels: Mapping[str, str]) -> str:
    if what in kernels:
        return what
    named = [kernel_id for kernel_id, name in kernels.items() if name == what]
    if not named and Path(what).is_file():
        named = [k for k in [kernel_at_path(what, reference=reference).kernel_id] if k in kernels]
    if len(named) != 1:
        why = f"{len(named)} kernels are called {what!r}" if named else f"no kernel {what!r}"
        names = list_values([f"{name} ({kernel_id})" for kernel_id, name in kernels.items()])
        raise NotRecordedError(f"{why}; recorded: {names}")
    return named[0]


def _cell_at_shape(shape: Shape | None, cells: Sequence[Workload]) -> Workload:
    """Return the cell at a shape, which may be given in part."""
    sizes = shape or {}
    fits = [
        cell
        for cell in cells
        if canonical({k: v for k, v in cell.default.shape.items() if k in sizes})
        == canonical(sizes)
    ]
    if len(fits) == 1:
        return fits[0]
    why = "several shapes are recorded" if fits else f"{describe_values(sizes)} is not recorded"
    shapes = list_values([describe_values(cell.default.shape) for cell in cells])
    raise NotRecordedError(f"{why}; choose one with --shape: {shapes}")


def _is_row_of(row: Outcome, cell: Workload) -> bool:
    return row.kernel_id == cell.kernel_id and canonical(row.shape) == canonical(cell.default.shape)


def recorded_default(rows: Sequence[Outcome], space: Space, params: Shape) -> Mapping[str, Value]:
    """Return the parameters in use: `params`, else those recorded as default, else the first.

    Args:
        rows: of one kernel at one shape.
        space: their points.
        params: given ones.

    Raises:
        ParamsError: they are not recorded.
    """
    named = next((row for row in rows if row.chosen_by == "default"), rows[0])
    chosen = {**named.params, **params}
    if chosen not in space:
        values = "; ".join(
            f"{name} of {list_values(list(listed))}" for name, listed in space.values.items()
        )
        raise ParamsError(f"{describe_values(chosen)} is not recorded; recorded: {values}")
    return chosen


def describe_values(values: Mapping[str, Value]) -> str:
    """Return sizes or parameters as `A=1, B=2`."""
    return settings_text(values, "the default shape")
