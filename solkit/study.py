"""What can be learned of a kernel file without a GPU: its work and its analysis, per shape.

Runs in a throw-away child process (`solkit.worker`), since it patches torch and triton.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from solkit import kernelfiles
from solkit.adapters import fake_cuda, fake_triton, triton_compiler
from solkit.analysis import analyse
from solkit.core import (
    Analysis,
    AnalysisStatus,
    Case,
    Device,
    FailedShape,
    KernelFile,
    Study,
    Tolerance,
    Value,
    Work,
)
from solkit.errors import InputError, KernelFileError
from solkit.kernelfiles import LoadedKernel, Workload
from solkit.kernelfiles._source import blaming
from solkit.measure.compare import default_tolerance
from solkit.roofline.fusion import Kernels
from solkit.roofline.work import narrowed, work_of, work_of_arguments, work_of_live
from solkit.roofline.work.program import Program, trace

__all__ = ["case_of", "describe", "fake", "study", "warm_up"]

Shape = Mapping[str, Value]


def warm_up() -> None:
    """Load and compute now what every job would need, so that forked children find it there."""
    hashing = threading.Thread(target=triton_compiler.prepare)
    hashing.start()
    fake_cuda.defer_dynamo()
    fake_cuda.prepare()
    with fake_cuda.fake_tensors():
        work_of(_some_layers)
    hashing.join()


def _some_layers() -> list[torch.Tensor]:
    """Ops that many problems have: torch imports and builds much for the first of a kind."""
    torch.manual_seed(0)
    with torch.device("cuda"), torch.no_grad():
        model = torch.nn.Sequential(
            *(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU()),
            *(torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16, 8)),
            *(torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Softmax(-1)),
        )
        out = model(torch.rand(2, 3, 4, 4))
        return [torch.cat([out + out.mean(dim=1, keepdim=True), out * out.sum()]).max()]


def describe(path: str, reference: str | None, device: Device) -> KernelFile:
    """Read a kernel file: its problem and its candidate.

    Raises:
        KernelFileError: the file cannot be used.
    """
    fake(device)
    with fake_cuda.fake_tensors():
        return kernelfiles.load(path, reference).description


def study(
    path: str,
    reference: str | None,
    device: Device,
    shapes: tuple[Shape, ...] | None,
    params: Shape,
    analysing: bool,
    jobs: int,
    groups: str | None = None,
) -> Study:
    """Trace the reference and analyse the candidate at each shape.

    Args:
        path: the kernel file.
        reference: the file with the reference, where `path` lacks one.
        device: the target.
        shapes: overrides; ``None`` takes the file's own shapes.
        params: of the candidate.
        analysing: whether to capture and compile the candidate's launches.
        jobs: processes that may compile at once.
        groups: cuts the problem into kernels as `solkit.roofline.fusion` reads them; one kernel an
            op where empty, and none where ``None``.

    Raises:
        InputError: the file or a parameter is at fault, or every shape.
    """
    fake(device)
    with fake_cuda.fake_tensors():
        loaded = kernelfiles.load(path, reference)
        wanted = loaded.description.problem.shapes if shapes is None else shapes
        cases: list[Case] = []
        errors: list[tuple[Shape, InputError]] = []
        for shape in wanted:
            try:
                cases.append(case_of(loaded, device, shape, params, analysing, jobs, groups))
            except InputError as error:
                errors.append((shape, error))
    if not cases:
        raise _common(errors)
    failed = tuple(FailedShape(shape, str(error)) for shape, error in errors)
    return Study(loaded.description, tuple(cases), failed)


def _common(errors: Sequence[tuple[Shape, InputError]]) -> InputError:
    """One error where every shape failed: theirs, if it is the same for all."""
    if len({str(error) for _, error in errors}) == 1:
        return errors[0][1]
    named = [(",".join(f"{k}={v}" for k, v in shape.items()), error) for shape, error in errors]
    return InputError("\n  ".join(["every shape failed:", *(f"{s}: {e}" for s, e in named)]))


def fake(device: Device) -> None:
    """Have torch and triton believe in `device` for the rest of this process."""
    fake_cuda.install(device)
    fake_triton.install(device)


def case_of(
    loaded: LoadedKernel,
    device: Device,
    shape: Shape,
    params: Shape,
    analysing: bool,
    jobs: int,
    groups: str | None,
) -> Case:
    """One shape's work and analysis; arguments as of `study`, within fake tensors."""
    candidate = loaded.description.candidate
    with fake_cuda.watching_guesses() as guesses:
        workload = loaded.workload(shape, params)
    program, work, outputs = _work(workload, loaded)
    kernels = Kernels(program) if program is not None and groups is not None else None
    assumed = (*workload.assumptions, *guesses)
    return Case(
        shape=loaded.full_shape(shape),
        params={**(candidate.params if candidate is not None else {}), **params},
        work=_without_hard_part(work, assumed) if assumed else work,
        tolerance=(
            workload.tolerance or loaded.description.problem.tolerance or _tightest(outputs)
        ),
        analysis=_analysis(workload, outputs, device, params, analysing, jobs),
        unfused=kernels.unfused if kernels else (),
        grouped=kernels.grouped(groups) if kernels and groups else (),
    )


def _work(
    workload: Workload, loaded: LoadedKernel
) -> tuple[Program | None, Work, list[torch.Tensor]]:
    """What the problem does, where it has a reference, what it costs, and its outputs."""
    outputs: list[torch.Tensor] = []
    problem = loaded.description.problem
    if workload.reference is None:
        with blaming(problem.path, "launching the kernel on fake inputs"):
            outputs += workload.run_kernel()
        inputs = [arg for arg in workload.args if isinstance(arg, torch.Tensor)]
        return None, work_of_arguments(inputs, outputs), outputs

    def run() -> list[torch.Tensor]:
        outputs.extend(workload.run_reference())
        return outputs

    with (
        fake_cuda.watching_guesses() as guesses,
        blaming(problem.path, f"calling {problem.reference} on fake inputs"),
    ):
        traced = trace(run)
    if not outputs:
        raise KernelFileError(
            f"{problem.reference} returns no tensor; expected tensors, or OUTPUTS naming the "
            "arguments that it writes",
            problem.path,
        )
    program = narrowed(traced)
    work = work_of_live(program)
    return program, _without_hard_part(work, tuple(guesses)) if guesses else work, outputs


def _without_hard_part(work: Work, guesses: tuple[str, ...]) -> Work:
    """What rests on guessed values is no bound that every implementation must keep to."""
    return replace(
        work,
        assumptions=(*work.assumptions, *guesses),
        guesses=(*work.guesses, *guesses),
        hard_operations={},
        hard_read_bytes=0,
        hard_write_bytes=0,
    )


def _tightest(outputs: list[torch.Tensor]) -> Tolerance:
    """The tightest default among the dtypes of the outputs."""
    return min((default_tolerance(t.dtype) for t in outputs), key=lambda t: t.rtol)


def _analysis(
    workload: Workload,
    outputs: list[torch.Tensor],
    device: Device,
    params: Shape,
    analysing: bool,
    jobs: int,
) -> Analysis:
    if workload.kernel is None:
        return Analysis(AnalysisStatus.NO_KERNEL)
    if not analysing:
        return Analysis(AnalysisStatus.NOT_CAPTURED, notes=("Analysis was not asked for.",))
    return analyse(workload, device, params, jobs, outputs)
