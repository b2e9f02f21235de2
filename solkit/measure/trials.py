"""The inputs on which a candidate is checked: several seeds, distributions and shapes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import torch

from solkit.core import KernelFile, Value
from solkit.kernelfiles import Workload
from solkit.measure.exact import Exact

__all__ = ["Trial", "trials"]


@dataclass(frozen=True)
class Trial:
    """One set of inputs, and what is right on it.

    Attributes:
        name: how the inputs were made, e.g. ``"inputs()"``, ``"large"``, ``"held-out M=100"``.
        seed: what `solkit.measure.inputs.seed_everything` was given before `make`; give it the
            same before the candidate runs.
        workload: the inputs, which no one has written into yet.
        want: the reference's outputs.
        exact: the same in wide arithmetic; ``None`` where the reference does not run in it.
        notes: why `exact` is ``None``.
    """

    name: str
    seed: int
    workload: Workload
    want: list[torch.Tensor]
    exact: list[Exact] | None
    notes: tuple[str, ...] = ()


def trials(
    make: Callable[[Mapping[str, Value]], Workload],
    description: KernelFile,
    seed: int,
    shape: Mapping[str, Value] | None = None,
    skip: Collection[str] = (),
) -> Iterator[Trial]:
    """Fresh inputs by several distributions and seeds, lazily: one trial is alive at a time.

    The two that ``inputs()`` gives come first. A distribution that the reference does not allow
    (it raises, or gives NaN or infinities that it did not give on ``inputs()``) is left out.

    Args:
        make: the workload of a shape, as `LoadedKernel.workload` gives it, with inputs drawn from
            the global generators, which are seeded before each call.
        description: the kernel file's.
        seed: of the first trial.
        shape: what is measured; overrides the file's defaults.
        skip: names of trials to leave out: such as the reference dies of (a device assertion).

    Raises:
        Exception: what `make` or the reference raise on the inputs that the file itself gives.
    """
    raise NotImplementedError(make, description, seed, shape, skip)
