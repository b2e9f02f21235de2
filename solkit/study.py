"""What can be learned of a kernel file without a GPU: its work and its analysis, per shape.

Runs in a throw-away child process (`solkit.worker`), since it patches torch and triton.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from solkit import kernelfiles
from solkit.adapters import fake_cuda, fake_triton
from solkit.analyse import analyse
from solkit.core import Analysis, AnalysisStatus, Device, KernelFile, Tolerance, Value, Work
from solkit.errors import KernelFileError
from solkit.kernelfiles import LoadedKernel, Workload
from solkit.kernelfiles._source import blaming
from solkit.roofline.work import work_of, work_of_arguments

__all__ = ["Case", "Study", "describe", "study"]

Shape = Mapping[str, Value]


@dataclass(frozen=True)
class Case:
    """One shape of a problem.

    Attributes:
        shape: every size with its value.
        params: the candidate's parameters.
        work: what the problem costs.
        tolerance: the file's own, or that of its outputs' dtype.
        analysis: of the candidate.
    """

    shape: Shape
    params: Mapping[str, Value]
    work: Work
    tolerance: Tolerance
    analysis: Analysis


@dataclass(frozen=True)
class Study:
    """A kernel file and one `Case` per shape."""

    kernel: KernelFile
    cases: tuple[Case, ...]


def describe(path: str, reference: str | None, device: Device) -> KernelFile:
    """Read a kernel file: its problem and its candidate.

    Raises:
        KernelFileError: the file cannot be used.
    """
    return _load(path, reference, device).description


def study(
    path: str,
    reference: str | None,
    device: Device,
    shapes: tuple[Shape, ...] | None,
    params: Shape,
    analysing: bool,
    jobs: int,
) -> Study:
    """Trace the reference and analyse the candidate at each shape.

    Args:
        path, reference: as for `solkit.kernelfiles.load`.
        device: the target.
        shapes: overrides; ``None`` takes the file's own shapes.
        params: of the candidate.
        analysing: whether to capture and compile the candidate's launches.
        jobs: processes that may compile at once.

    Raises:
        InputError: the file, a shape or a parameter is at fault.
    """
    loaded = _load(path, reference, device)
    wanted = loaded.description.problem.shapes if shapes is None else shapes
    cases = tuple(_case(loaded, device, shape, params, analysing, jobs) for shape in wanted)
    return Study(loaded.description, cases)


def _load(path: str, reference: str | None, device: Device) -> LoadedKernel:
    fake_cuda.install(device)
    fake_triton.install(device)
    with fake_cuda.fake_tensors():
        return kernelfiles.load(path, reference)
