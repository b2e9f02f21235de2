"""Cells: one kernel at one shape, with its possible configurations."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from solkit.core import Configuration, Outcome, Space, canonical
from solkit.datasets.kernels import Kernel
from solkit.errors import WorkerError
from solkit.measure.benches.recorded import configuration_of
from solkit.measure.benches.trusted import Ahead, toolchain

_SURVEYED = 32  # kernels, ahead of the one that is wanted next; those that build do not count


@dataclass(frozen=True)
class Workload:
    """One kernel at one shape."""

    kernel_id: str  # as in `Outcome`
    problem_id: str
    name: str  # the name of the kernel
    default: Configuration  # the kernel at that shape, with its own parameters
    space: Space  # what may be chosen instead


def survey_kernels(
    kernels: Sequence[Kernel], ahead: Ahead, tell: Callable[[str], None]
) -> Iterator[Workload | None]:
    """Yield every kernel at every shape with valid configurations, families mixed.

    Some kernels are surveyed ahead of the next one, not all at once. `tell` receives a sentence
    about kernels that are left out.

    Yields:
        A cell, or ``None`` while none is known yet.
    """
    remaining = _buildable_kernels(
        kernels, toolchain.missing_tools({**os.environ, **ahead.environment}), tell
    )
    random.Random(0).shuffle(remaining)
    surveys: list[tuple[Kernel, Future[list[dict[str, Any]]]]] = []
    while remaining or surveys:
        while remaining and sum(not other.builds_extension for other, _ in surveys) < _SURVEYED:
            kernel = remaining.pop()
            surveys.append((kernel, ahead.space(kernel)))
        ready = next((n for n, (_, survey) in enumerate(surveys) if survey.done()), None)
        if ready is None:
            yield None
            continue
        kernel, survey = surveys.pop(ready)
        try:
            shapes = survey.result()
        except WorkerError as error:
            tell(f"{kernel.name}: {error}")
            continue
        for entry in shapes:
            if entry["valid"]:
                yield _workload_of_entry(kernel, entry)


def _buildable_kernels(
    kernels: Sequence[Kernel], missing: str, tell: Callable[[str], None]
) -> list[Kernel]:
    """Return the kernels whose extensions, if any, can be built here."""
    left_out = [kernel for kernel in kernels if missing and kernel.builds_extension]
    if left_out:
        tell(f"{len(left_out)} kernels in CUDA C++ are left out, as there is no {missing}")
    return [kernel for kernel in kernels if kernel not in left_out]


def _workload_of_entry(kernel: Kernel, entry: dict[str, Any]) -> Workload:
    path, shape = str(kernel.path), entry["shape"]
    default = Configuration(path, kernel.entry_point, shape, entry["default"])
    problem, space = kernel.problem_id(shape), Space.of_points(entry["valid"])
    return Workload(kernel.kernel_id, problem, kernel.name, default, space)


def recorded_workloads(outcomes: Iterable[Outcome]) -> Iterator[Workload]:
    """Yield every kernel and shape of a recording; the default is the first one recorded."""
    cells: dict[tuple[str, str], list[Outcome]] = {}
    for row in outcomes:
        cells.setdefault((row.kernel_id, canonical(row.shape)), []).append(row)
    for (kernel, _), rows in cells.items():
        first = configuration_of(rows[0])
        space = Space.of_points(row.params for row in rows)
        yield Workload(kernel, rows[0].problem_id, rows[0].implementation or kernel, first, space)
