"""Candidates of a diff: kernel files with shapes and configurations, their own or tuned ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from solkit.analysis.analyser import Analyser
from solkit.core import KernelFile, Outcome, Value, Verdict, canonical
from solkit.datasets.kernels import kernel_of_file
from solkit.errors import InputError
from solkit.pipeline.studying import Shape
from solkit.tuner.tuning_results import TuningResult, agreed_results


@dataclass(frozen=True)
class Choice:
    """Shapes of a file with one choice of parameters.

    Attributes:
        shapes: sizes to override; ``None`` for the file's own shapes.
        params: of the candidate.
        chosen_by: where it comes from.
    """

    shapes: Sequence[Shape] | None
    params: Mapping[str, Value] = field(default_factory=dict)
    chosen_by: str = "default"


def own_choices(
    analyser: Analyser, kernel: KernelFile, shapes: Sequence[Shape] | None, configurations: int
) -> list[Choice]:
    """Return the file's own parameters, and others that are drawn from its space.

    Args:
        analyser: evaluates the space.
        kernel: the file.
        shapes: sizes to override; ``None`` for the file's own.
        configurations: how many of each shape, its own among them.
    """
    candidate = kernel.candidate
    if candidate is None:
        raise InputError(f"{kernel.problem.path} has no candidate to compare")
    if configurations == 1:
        return [Choice(shapes)]
    choices = []
    for shape in kernel.problem.shapes if shapes is None else shapes:
        reference = None if kernel.problem.path == candidate.path else kernel.problem.path
        points = analyser.points(candidate.path, reference, shape, configurations - 1).result()
        choices += [Choice([shape], point) for point in points]
    return choices


# ------------------------------------------------------------------------------- tuned elsewhere


@dataclass(frozen=True)
class TunedConfigs:
    """Configurations that a tuner chose.

    Attributes:
        origin: the file or database.
        findings: results of a tuning database, which name their kernel.
        rows: of another tool's file, which apply to any kernel with these sizes and parameters.
        names: by a name in the rows, the kernel's name of a size or parameter.
    """

    origin: str
    findings: Sequence[TuningResult] = ()
    rows: Sequence[Outcome] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def choices(self, kernel: KernelFile) -> list[Choice]:
        """Return those that are for a kernel file; none if nothing fits."""
        choices = [
            Choice([_sizes_of(kernel, finding.shape)], finding.chosen.params, self.origin)
            for finding in self.findings
            if finding.chosen and finding.key.kernel_id == kernel_of_file(kernel).kernel_id
        ]
        return [*choices, *self._choices_of_rows(kernel)]

    def _choices_of_rows(self, kernel: KernelFile) -> Iterator[Choice]:
        assert kernel.candidate is not None
        valid = {*kernel.candidate.params, *kernel.candidate.space.values}
        for row in _best_rows(self.rows):
            params = self._renamed(row.params)
            sizes = _sizes_of(kernel, self._renamed(row.shape))
            if sizes and params.keys() <= valid:
                yield Choice([sizes], params, self.origin)

    def _renamed(self, values: Mapping[str, Value]) -> dict[str, Value]:
        return {self.names.get(name, name): value for name, value in values.items()}


def _sizes_of(kernel: KernelFile, shape: Mapping[str, Value]) -> Shape:
    """Return the sizes that the problem has: files name settings besides (a block's shape)."""
    return {name: value for name, value in shape.items() if name in kernel.problem.sizes}


def explain_misfit(sources: Sequence[TunedConfigs], kernel: KernelFile) -> str:
    """Say why no tuned configuration is for a kernel, with the names on both sides."""
    assert kernel.candidate is not None
    rows = [row for source in sources for row in source.rows]
    has = f"{kernel.problem.name} has the sizes {_listed(kernel.problem.sizes)}"
    has += f" and the parameters {_listed(kernel.candidate.params)}"
    where = ", ".join(source.origin for source in sources)
    if not rows:
        return f"{where} has no result of this kernel as its file is now"
    held = {name for row in rows for name in (*row.shape, *row.params)}
    return f"{where} has no configuration for it: it names {_listed(held)}; {has} (see --map)"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _best_rows(rows: Sequence[Outcome]) -> list[Outcome]:
    """Return one row a shape: the fastest right one, or the only choice of a file without times."""
    best: dict[str, Outcome] = {}
    for row in rows:
        if row.verdict.is_failure:
            continue
        key = f"{row.family} {canonical(row.shape)}"
        if key not in best or (row.time_ms or 0.0) < (best[key].time_ms or 0.0):
            best[key] = row
    return list(best.values())


def read_tuned(place: str, names: Mapping[str, str]) -> TunedConfigs:
    """Read tuned configurations.

    Args:
        place: a tuning database (a folder, a server's URL) or a file of another tool: vLLM's and
            SGLang's, or any with rows that `solkit data import` reads.
        names: by a name in the file, the kernel's name.

    Raises:
        InputError: it cannot be read, or holds no configuration.
    """
    if "://" in place or Path(place).is_dir():
        from solkit.tuner.database import Database

        findings, _ = agreed_results(Database(place).findings())
        if not findings:
            raise InputError(f"{place} holds no tuned configuration")
        return TunedConfigs(place, findings=findings)
    from solkit.datasets import formats

    rows = formats.read(place, labels=formats.Labels(device="any"), numbers=False).rows
    if not any(row.verdict in (Verdict.NOT_MEASURED,) or row.time_ms for row in rows):
        raise InputError(f"{place} holds no tuned configuration")
    return TunedConfigs(place, rows=rows, names=dict(names))
