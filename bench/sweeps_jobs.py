"""What `sweeps` has done in processes of their own, on fake tensors and with no GPU."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from solkit import kernelfiles, study
from solkit.adapters import fake_cuda, triton_compiler
from solkit.analysis import capture
from solkit.core import Analysis, Bound, Device, Value
from solkit.kernelfiles._source import import_file
from solkit.roofline.bound import bound

__all__ = ["Analysed", "Space", "analyse", "choose", "compile_ahead", "space_of"]

Params = Mapping[str, Value]


@dataclass(frozen=True)
class Space:
    """What a kernel file leaves to choose at one of its shapes.

    Attributes:
        shape: every size.
        valid: all valid configurations, the default one first if it is among them.
    """

    shape: Params
    valid: tuple[Params, ...]


@dataclass(frozen=True)
class Analysed:
    """What is known without a GPU of some configurations of a kernel at a shape.

    Attributes:
        bound: of the problem.
        analyses: one a configuration.
        seconds: what each took, compiling among it.
    """

    bound: Bound
    analyses: tuple[Analysis, ...]
    seconds: tuple[float, ...]


def space_of(path: str) -> tuple[Space, ...]:
    """What a native kernel file leaves to choose, one entry a shape."""
    description = kernelfiles.load(path).description
    assert description.candidate is not None
    candidate, valid = description.candidate, getattr(import_file(path), "valid", None)
    names, values = candidate.space.keys(), candidate.space.values()
    every = [dict(zip(names, chosen)) for chosen in itertools.product(*values)]
    default = {name: candidate.params[name] for name in names}
    every = [default, *(each for each in every if each != default)]
    found = []
    for shape in description.problem.shapes:
        sizes = {**description.problem.sizes, **shape}
        found.append(Space(shape, tuple(p for p in every if valid is None or valid(p, sizes))))
    return tuple(found)


def choose(space: Space, count: int, seed: str) -> tuple[Params, ...]:
    """The first valid configuration, and others drawn without replacement, `count` in all."""
    first, *others = space.valid
    drawn = random.Random(seed).sample(others, min(count - 1, len(others)))
    return (first, *drawn)


def compile_ahead(path: str, shape: Params, params: Params, device: Device) -> None:
    """Have Triton's cache hold what a configuration launches.

    Raises:
        SystemExit: it does not compile; why has been printed.
    """
    study.fake(device)
    with fake_cuda.fake_tensors():
        workload = kernelfiles.load(path).workload(shape, params)
        launches, _ = capture(workload, params)
    for launch in launches:
        error = triton_compiler.compile_for(launch.kernel, device).error
        if error is not None:
            print(error)
            raise SystemExit(1)


def analyse(path: str, shape: Params, choices: Sequence[Params], device: Device) -> Analysed:
    """Bound a problem and analyse configurations of its kernel."""
    study.fake(device)
    with fake_cuda.fake_tensors():
        loaded = kernelfiles.load(path)
        base = study.case_of(loaded, device, shape, {}, False, 1, None)
        found = list(_analyses(loaded, shape, choices, device))
    analyses, seconds = zip(*found, strict=True)
    return Analysed(bound(base.work, device, tolerance=base.tolerance), analyses, seconds)


def _analyses(
    loaded: kernelfiles.LoadedKernel, shape: Params, choices: Sequence[Params], device: Device
) -> Iterator[tuple[Analysis, float]]:
    for params in choices:
        start = time.perf_counter()
        case = study.case_of(loaded, device, shape, params, True, 1, None)
        yield case.analysis, time.perf_counter() - start
