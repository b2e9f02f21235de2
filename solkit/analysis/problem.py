"""Costs of a problem at one shape, traced on fake tensors.

Runs in a worker of the `Analyser` or a job, since it needs a patched torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from solkit.adapters import fake_cuda
from solkit.adapters.launch_recording import recording_launches
from solkit.analysis.call_state import CallState, held_tensors
from solkit.analysis.triton.capture import described
from solkit.core import (
    Analysis,
    AnalysisStatus,
    Case,
    InputNeed,
    Tolerance,
    Value,
    Work,
    default_tolerance,
)
from solkit.errors import KernelFileError
from solkit.kernelfiles import LoadedKernel, Workload
from solkit.kernelfiles._source import blaming_user_code
from solkit.kernelfiles.seeding import seeded_workload
from solkit.roofline.fusion import Kernels
from solkit.roofline.work import narrowed, work_of_arguments, work_of_live
from solkit.roofline.work.avoidable_work import surely_used
from solkit.roofline.work.inputs import drawn
from solkit.roofline.work.program import Drawn, Program, trace

Shape = Mapping[str, Value]


def problem_case(loaded: LoadedKernel, shape: Shape, params: Shape, groups: str | None) -> Case:
    """Return one shape's work, tolerance and outputs, without an analysis.

    Args:
        loaded: the file; call this within `fake_cuda.fake_tensors`.
        shape: sizes to override.
        params: of the candidate; used if the file has no reference.
        groups: as in `solkit.analysis.study.StudyPlan`.

    Raises:
        InputError: the file, the shape or a parameter is at fault.
    """
    candidate = loaded.description.candidate
    with fake_cuda.watching_guesses() as guesses:
        workload, arguments = _problem_alone(loaded, shape, params)
    program, work, outputs = _program_and_work(workload, loaded, arguments)
    kernels = Kernels(program) if program is not None and groups is not None else None
    assumed = (*workload.assumptions, *guesses)
    return Case(
        shape=loaded.full_shape(shape),
        params={**(candidate.params if candidate is not None else {}), **params},
        work=_without_hard_part(work, assumed) if assumed else work,
        tolerance=(
            workload.tolerance or loaded.description.problem.tolerance or _tightest(outputs)
        ),
        analysis=Analysis(AnalysisStatus.NOT_CAPTURED, notes=("No analysis was requested.",)),
        unfused=kernels.unfused if kernels else (),
        grouped=kernels.grouped(groups) if kernels and groups else (),
        outputs=described(outputs),
        deployed=loaded.deployment(shape),
    )


def _problem_alone(loaded: LoadedKernel, shape: Shape, params: Shape) -> tuple[Workload, Drawn]:
    """Return a workload without the candidate, whose code must not change its problem's bound.

    Parameters are still checked. A file without a reference needs its candidate.
    """
    description = loaded.description
    if description.problem.reference is None:
        return seeded_workload(loaded, shape, params), Drawn()
    workloads: list[Workload] = []
    states: list[torch.Tensor] = []

    def make() -> list[torch.Tensor]:
        workloads.append(seeded_workload(loaded, shape, {}))
        tensors, reference = workloads[0].tensors(), workloads[0].reference
        held = held_tensors(reference) if reference else ()
        fake_cuda.compute_indices(tensors)
        states[:] = fake_cuda.hold_as_state([*tensors, *held])
        return tensors

    loaded.description = replace(description, candidate=None)
    try:
        arguments = drawn(make)
        arguments = replace(arguments, sparse=[*arguments.sparse, *states])
    finally:
        loaded.description = description
    if params:
        with fake_cuda.watching_guesses():
            seeded_workload(loaded, shape, params)
    return workloads[0], arguments


def _program_and_work(
    workload: Workload, loaded: LoadedKernel, arguments: Drawn
) -> tuple[Program | None, Work, list[torch.Tensor]]:
    """Return the program, if the problem has a reference; what it costs; and its outputs."""
    outputs: list[torch.Tensor] = []
    problem = loaded.description.problem
    if workload.reference is None:
        with blaming_user_code(problem.path, "launching the kernel on fake inputs"):
            outputs += workload.run_kernel()
        inputs = [arg for arg in workload.args if isinstance(arg, torch.Tensor)]
        return None, work_of_arguments(inputs, outputs), outputs

    def run() -> list[torch.Tensor]:
        outputs[:] = workload.run_reference()
        return outputs

    state = CallState(workload.reference, workload.tensors()) if workload.again else None
    with (
        fake_cuda.watching_guesses() as guesses,
        blaming_user_code(problem.path, f"calling {problem.reference} on fake inputs"),
        recording_launches({}) as launched,
    ):
        traced = trace(run, arguments=arguments, state=state)
    if not outputs:
        raise KernelFileError(
            f"{problem.reference} returns no tensor; expected tensors, or OUTPUTS naming the "
            "arguments that it writes",
            problem.path,
        )
    program = narrowed(traced, workload.tolerance or problem.tolerance)
    work = replace(work_of_live(program), needs=_needed_arguments(workload, arguments, program))
    if launched.launches and not work.dram_read_bytes + work.dram_write_bytes:
        work = _work_of_hidden_launches(workload, outputs)
    return program, _without_hard_part(work, tuple(guesses)) if guesses else work, outputs


def _work_of_hidden_launches(workload: Workload, outputs: list[torch.Tensor]) -> Work:
    """Return the work of a reference whose launches get addresses alone: what they do is unknown.

    An argument that is an output is taken to be written alone.
    """
    written = {id(tensor) for tensor in outputs}
    distinct = {id(tensor): tensor for tensor in workload.tensors()}  # one may be passed twice
    inputs = [tensor for key, tensor in distinct.items() if key not in written]
    return work_of_arguments(inputs, outputs, "The reference launches kernels of its own")


def _needed_arguments(
    workload: Workload, arguments: Drawn, program: Program
) -> tuple[InputNeed, ...]:
    """Return arguments in the GPU's memory that every correct implementation reads."""
    used = surely_used(program, program.ops)
    used_by_id = {
        id(t): used.get(n, 0) for t, n in zip(arguments.apart, program.apart, strict=True)
    }
    named = zip(workload.names(), workload.tensors(), strict=True)
    return tuple(
        InputNeed(position, name, used_by_id[id(tensor)])
        for position, (name, tensor) in enumerate(named)
        if used_by_id.get(id(tensor)) and tensor.is_cuda
    )


def _without_hard_part(work: Work, guesses: tuple[str, ...]) -> Work:
    """Work that depends on guessed values bounds no implementation."""
    return replace(
        work,
        assumptions=(*work.assumptions, *guesses),
        guesses=(*work.guesses, *guesses),
        needs=(),
        hard_operations={},
        hard_read_bytes=0,
        hard_write_bytes=0,
    )


def _tightest(outputs: list[torch.Tensor]) -> Tolerance:
    """Return the tightest default among the dtypes of the outputs."""
    return min((default_tolerance(t.dtype) for t in outputs), key=lambda t: t.rtol)
