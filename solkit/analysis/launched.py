"""The configurations of autotuned kernels that live in packages, found by what a file launches."""

from __future__ import annotations

from dataclasses import replace

from solkit.adapters import fake_cuda, fake_triton
from solkit.kernelfiles import LoadedKernel
from solkit.kernelfiles._source import elsewhere, space_of_tuners
from solkit.kernelfiles.seeding import seeded_workload

__all__ = ["find_launched_space"]


def find_launched_space(loaded: LoadedKernel) -> None:
    """Give a candidate without a space that of the autotuned kernels that it launches.

    It is called at the first shape, on fake tensors, if a package that it imports has any.
    """
    candidate, problem = loaded.description.candidate, loaded.description.problem
    if candidate is None or candidate.space.values or not elsewhere(()):
        return
    with (
        fake_cuda.fake_tensors(),
        fake_cuda.watching_guesses(),
        fake_triton.recording({}) as seen,
    ):
        try:
            seeded_workload(loaded, problem.shapes[0], {}).run_kernel()
        except Exception:  # what stops it is told where it is analysed
            return
    space = space_of_tuners(seen.tuners.values())
    if space.values:
        found = replace(candidate, space=space)
        loaded.description = replace(loaded.description, candidate=found)
