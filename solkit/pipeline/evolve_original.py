"""Kernel that a search of variants starts from: a file, a reference or a record of a solution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from solkit.core import (
    Configuration,
    EvolveSettings,
    KernelFile,
    Outcome,
    Problem,
    Space,
    Value,
    Variant,
    canonical,
    variant_id,
)
from solkit.core.quantities import settings_text
from solkit.core.values import check_sizes
from solkit.datasets.kernels import kernel_of_file
from solkit.errors import InputError
from solkit.measure.benches import RecordedBench
from solkit.measure.benches.recorded import list_values
from solkit.pipeline.compiling import choose_configurations, first_parent
from solkit.pipeline.preparing import Preparation
from solkit.pipeline.solutions import is_record, reference_of_definition, text_of_solution
from solkit.pipeline.studying import Shape
from solkit.pipeline.tuning_context import describe_values, recorded_default


@dataclass(frozen=True)
class Original:
    """Kernel that the search starts from.

    Attributes:
        path: the kernel file.
        problem: the file with the reference, which may be the same.
        file: what it describes.
        shape: sizes that override the file's defaults.
        params: every parameter in use.
        variant: the file as the first variant.
        notes: what limits the search, each a sentence.
        compiled: the file that the user gave, if it holds no kernel: `path` is then what
            `torch.compile` would run, which fits this one shape.
        record: the JSON that the user gave, if it holds the kernel: `path` is then its source.
    """

    path: str
    problem: str
    file: KernelFile
    shape: Mapping[str, Value]
    params: Mapping[str, Value]
    variant: Variant
    notes: tuple[str, ...] = ()
    compiled: str | None = None
    record: str | None = None

    @staticmethod
    def read(
        prepared: Preparation, path: str, problem: str, shape: Shape | None, how: EvolveSettings
    ) -> Original:
        """Read a kernel file, or compile a reference.

        Raises:
            InputError: the file, a shape or a parameter is invalid; or what Inductor makes of a
                reference cannot be written as a kernel file.
        """
        file = prepared.analyser.describe(path, None if problem == path else problem).result()
        _require_sizes(file.problem, [shape or {}, *(how.held_out or ())])
        if file.candidate is None and file.problem.is_definition:
            raise InputError(f"{path} is a problem alone: name what solves it with --solution FILE")
        if file.candidate is None and path == problem:
            return Original._of_reference(prepared, path, shape, how)
        if file.candidate is None:
            raise InputError(f"{path} holds no kernel to start from")
        if file.problem.is_definition:
            text = text_of_solution(path, file)
            if is_record(path):
                own = prepared.path(text), file.problem.path, shape, how
                return replace(Original.read(prepared, *own), record=path)
            problem = file.problem.path
        notes: list[str] = []
        if shape is None:
            shape = file.problem.shapes[0]
            if (others := len(file.problem.shapes) - 1) > 0:
                sizes = settings_text(shape)
                notes.append(f"Searched at the first shape of the file ({sizes}), of {others + 1}.")
        params = {**file.candidate.params, **how.params}
        if unknown := set(how.params) - set(file.candidate.params):
            valid = ", ".join(file.candidate.params) or "none"
            raise InputError(f"{path} has no parameter {min(unknown)!r}; it has: {valid}")
        text = Path(path).read_text()
        variant = Variant(variant_id(text), text, intent="What is in use now.")
        return Original(path, problem, file, shape, params, variant, tuple(notes))

    @staticmethod
    def _of_reference(
        prepared: Preparation, path: str, shape: Shape | None, how: EvolveSettings
    ) -> Original:
        """Return what `torch.compile` would run, in the private folder of the search."""
        parent = first_parent(path, prepared.device, shape)
        original = Original.read(prepared, prepared.path(parent.text), path, shape, how)
        kernel_file = original.path, path, original.shape
        params = choose_configurations(
            parent.choices, original.params, kernel_file, prepared.analyser
        )
        note = (
            f"{path} holds no kernel: the search starts from what torch.compile would run, written "
            "as a kernel file (`solkit inductor`). It fits this shape alone."
        )
        choice_note = "The kernel model chose among them."
        return replace(
            original,
            variant=replace(original.variant, intent="What torch.compile would run."),
            notes=(note, *parent.notes, *([choice_note] if params else []), *original.notes),
            compiled=path,
            params={**original.params, **params, **how.params},
        )

    def recorded(self, bench: RecordedBench, how: EvolveSettings) -> Original:
        """Read the original with recorded parameters in use: the file's own, if they are recorded.

        Raises:
            InputError: the file is not recorded at the shape.
        """
        rows = recorded_rows(bench, self.file, self.whole_shape)
        points = {canonical(row.params) for row in rows}
        if canonical(self.params) in points:
            return self
        space = Space.of_points(row.params for row in rows)
        return replace(self, params=recorded_default(rows, space, how.params))

    @property
    def named(self) -> str:
        """File that the user named."""
        return self.compiled or self.record or self.path

    @property
    def reference(self) -> str | None:
        """Text with the reference, if the kernel's file lacks it."""
        if self.problem == self.path:
            return None
        if self.file.problem.is_definition:
            return reference_of_definition(self.problem)
        return Path(self.problem).read_text()

    @property
    def whole_shape(self) -> dict[str, Value]:
        """Every size."""
        return self.file.problem.whole_shape(self.shape)

    def path_of(self, variant: Variant, prepared: Preparation) -> str:
        """Return the file of a variant: the original's own, or one that `prepared` keeps."""
        is_original = variant.id == self.variant.id
        return self.path if is_original else prepared.path(variant.source)

    @property
    def configuration(self) -> Configuration:
        """The original with the parameters in use."""
        return self.of(self.path, self.params, "default")

    def of(self, path: str, params: Mapping[str, Value], chosen_by: str) -> Configuration:
        """Return a file's candidate at the shape of the search, for this problem."""
        assert self.file.candidate is not None
        reference = self.problem if path != self.problem else None
        name = self.file.candidate.name
        return Configuration(path, name, self.shape, params, reference, chosen_by)

    def others(self, how: EvolveSettings) -> list[Mapping[str, Value]]:
        """Return shapes that the search does not see, and that the original can run."""
        from solkit.tuner.holdout import spread_shapes

        if self.compiled is not None:
            return []
        problem = self.file.problem
        held_out = how.held_out
        if held_out is None:
            held_out = problem.held_out_shapes or problem.shapes
        whole: list[Mapping[str, Value]] = [problem.whole_shape(sizes) for sizes in held_out]
        others = [shape for shape in whole if canonical(shape) != canonical(self.whole_shape)]
        is_chosen = how.held_out is not None or bool(problem.held_out_shapes)
        return others if is_chosen else spread_shapes(others)

    def practice(self, how: EvolveSettings) -> list[Mapping[str, Value]]:
        """List shapes to practise at, the file's own first: neither the search's nor any held out.

        There are none if none is held out: the search's shape is the only one that counts then.
        """
        from solkit.tuner.evolution.practising import shapes_like

        others, problem = self.others(how), self.file.problem
        if not others:
            return []
        held = [problem.whole_shape(shape) for shape in problem.held_out_shapes]
        barred = {canonical(shape) for shape in (self.whole_shape, *others, *held)}
        own = [problem.whole_shape(shape) for shape in problem.shapes]
        every = {canonical(shape): shape for shape in (*own, *shapes_like(self.whole_shape))}
        return [shape for name, shape in every.items() if name not in barred]


def _require_sizes(problem: Problem, shapes: Iterable[Mapping[str, Value]]) -> None:
    """Raise `ShapeError` for a size that a problem cannot have; at the gate is too late."""
    for shape in shapes:
        check_sizes(problem.path, shape, problem.sizes, ["uuid"] if problem.is_definition else ())


def recorded_rows(
    bench: RecordedBench, file: KernelFile, shape: Mapping[str, Value]
) -> list[Outcome]:
    """Return the rows of a kernel file at a shape.

    Raises:
        InputError: nothing is.
    """
    kernel, at = kernel_of_file(file).kernel_id, canonical(shape)
    rows = [row for row in bench.recording if row.kernel_id == kernel]
    at_shape, name = [row for row in rows if canonical(row.shape) == at], Path(file.path).name
    if not rows:
        recorded = list_values(list(dict.fromkeys(row.implementation for row in bench.recording)))
        raise InputError(
            f"not_recorded: the recording has no such source as {name}; it has: {recorded}"
        )
    if not at_shape:
        shapes = list_values(list(dict.fromkeys(describe_values(row.shape) for row in rows)))
        where = f"{name} is not recorded at {describe_values(shape)}"
        raise InputError(f"not_recorded: {where}; choose one with --shape: {shapes}")
    return at_shape
