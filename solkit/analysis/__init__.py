"""What compiling tells of a candidate, for a GPU that need not be here.

Runs in a throw-away child process in which `fake_cuda` and `fake_triton` are installed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from solkit.adapters.fake_triton import CapturedLaunch
from solkit.adapters.triton_compiler import Compiled
from solkit.analysis import cuda
from solkit.analysis.capture import CaptureError, capture
from solkit.analysis.compiling import compile_all
from solkit.analysis.demand import demand
from solkit.analysis.occupancy import occupancy
from solkit.core import Analysis, AnalysisStatus, Device, KernelAnalysis, Launch, Value
from solkit.errors import UnsupportedError
from solkit.kernelfiles import Workload
from solkit.roofline.kernel_model import model

__all__ = ["CaptureError", "analyse", "analyse_extensions", "capture", "followed", "occupancy"]

_OLDEST = (8, 0)
"""Below, Triton's code is not what a user would run there (it dropped older GPUs in 3.x)."""


def analyse(
    workload: Workload,
    device: Device,
    params: Mapping[str, Value],
    jobs: int,
    expected: Sequence[torch.Tensor] = (),
) -> Analysis:
    """Capture what the candidate launches and compile it for a device.

    Args:
        workload: with a candidate, and inputs that are fake tensors.
        device: the target, the one that the fakes were installed for.
        params: what an autotuned kernel's configuration must match.
        jobs: processes that may compile at once.
        expected: the reference's outputs; a note says where the candidate's are of other kinds.

    Returns:
        The analysis; its status says how far it came, its notes why no further.

    Raises:
        ParamsError: no configuration of an autotuned kernel matches `params`.
    """
    if device.compute_capability < _OLDEST:
        return Analysis(AnalysisStatus.UNSUPPORTED_DEVICE, notes=(_too_old(device),))
    launches: tuple[CapturedLaunch, ...] = ()
    whole = True
    with cuda.recording() as extensions:
        try:
            launches, notes = capture(workload, params, expected)
        except CaptureError as error:
            whole, notes = False, (f"The candidate could not be run on fake tensors: {error}",)
    if not launches and not extensions.launches:
        unseen = (
            "The candidate launches no kernel of its own: what PyTorch's operators launch is not "
            "seen."
        )
        told = (unseen, *notes) if whole else notes
        return Analysis(AnalysisStatus.NOT_CAPTURED, notes=told)
    kernels, unread = _analyse_launches(launches, device, jobs)
    compiled, unknown = analyse_extensions(extensions.launches, device)
    kernels = (*kernels, *compiled)
    notes = (*notes, *unread, *_guesses(kernels), *extensions.remarks, *unknown)
    whole = whole and not unknown and all(kernel.error is None for kernel in kernels)
    return Analysis(AnalysisStatus.COMPLETE if whole else AnalysisStatus.PARTIAL, kernels, notes)


def _too_old(device: Device) -> str:
    major, minor = device.compute_capability
    return (
        f"{device.name} has compute capability {major}.{minor}; kernels are analysed from "
        f"{_OLDEST[0]}.{_OLDEST[1]} on, so only bounds are given."
    )


def _analyse_launches(
    launches: Sequence[CapturedLaunch], device: Device, jobs: int
) -> tuple[tuple[KernelAnalysis, ...], tuple[str, ...]]:
    """Compile each specialisation once and describe every launch; and what could not be read."""
    kernels = list({id(launch.kernel): launch.kernel for launch in launches}.values())
    compiled = dict(zip(map(id, kernels), compile_all(kernels, device, jobs), strict=True))
    unread = {
        f"Machine code could not be read: {each.unread}": None
        for each in compiled.values()
        if each.unread
    }
    told: list[KernelAnalysis] = []
    for launch in launches:
        kernel, reason = followed(launch, compiled[id(launch.kernel)], device)
        told.append(kernel)
        if reason:
            unread[reason] = None
    return tuple(told), tuple(unread)


def followed(
    captured: CapturedLaunch, compiled: Compiled, device: Device
) -> tuple[KernelAnalysis, str]:
    """What is known of a launch as compiled, with what its code asks for and its modelled time.

    Returns:
        The launch, and why the last two are missing; empty where they are not, or nothing compiled.
    """
    kernel = _describe(captured.launch, compiled, device)
    try:
        return _with_demand(kernel, captured, compiled, device), ""
    except Exception as error:  # what the IR of a newer Triton may hold loses no other figure
        reason = f"{type(error).__name__}: {error}"
        return kernel, f"What {kernel.launch.name} asks for could not be read: {reason}"


def analyse_extensions(
    launches: Sequence[cuda.CudaLaunch], device: Device
) -> tuple[tuple[KernelAnalysis, ...], tuple[str, ...]]:
    """The launches of CUDA C++ kernels; and what is not known of them."""
    try:
        compiled, notes = cuda.compile_launches(launches, device)
    except UnsupportedError as error:
        return (), (f"CUDA C++ was not compiled: {error}",)
    told: list[KernelAnalysis] = []
    unknown: dict[str, None] = dict.fromkeys(notes)
    for captured, binary in zip(launches, compiled):
        launch = captured.launch
        if launch is not None:
            described = _describe(launch, binary, device)
            try:
                told.append(_followed_cuda(described, captured, binary, device))
            except Exception as error:  # what the PTX of a newer NVRTC may hold, likewise
                told.append(described)
                reason = f"{type(error).__name__}: {error}"
                unknown[f"What {launch.name} asks for could not be read: {reason}"] = None
            continue
        size = binary.error or f"{binary.registers} registers, {binary.spills} words spilled"
        where, kernel = captured.host.line, captured.host.kernel
        unknown[f"{where}: grid or block of {kernel} could not be evaluated ({size})."] = None
    return _merged(told), tuple(unknown)


def _merged(kernels: Sequence[KernelAnalysis]) -> tuple[KernelAnalysis, ...]:
    """Launches that turn out to do the same, although their arguments differ, as one."""
    once: list[KernelAnalysis] = []
    counts: list[int] = []
    for kernel in kernels:
        alone = replace(kernel, launch=replace(kernel.launch, count=1))
        if alone in once:
            counts[once.index(alone)] += kernel.launch.count
        else:
            once.append(alone)
            counts.append(kernel.launch.count)
    return tuple(
        replace(each, launch=replace(each.launch, count=n)) for each, n in zip(once, counts)
    )


def _with_demand(
    kernel: KernelAnalysis, captured: CapturedLaunch, compiled: Compiled, device: Device
) -> KernelAnalysis:
    """With what its code asks for, and the time that this should take."""
    if kernel.occupancy is None or kernel.shared_bytes is None:
        return kernel
    asked = demand(
        compiled.ttgir,
        compiled.ptx,
        captured.arguments,
        kernel.launch.grid,
        device,
        kernel.occupancy,
        kernel.shared_bytes,
    )
    kernel = replace(kernel, demand=asked)
    return replace(kernel, model=model(kernel, device))


def _followed_cuda(
    kernel: KernelAnalysis, captured: cuda.CudaLaunch, compiled: Compiled, device: Device
) -> KernelAnalysis:
    """The same for a CUDA C++ kernel."""
    if kernel.occupancy is None or kernel.shared_bytes is None or captured.host.block is None:
        return kernel
    asked = cuda.cuda_demand(
        compiled.ptx,
        compiled.entry,
        captured.host.arguments,
        captured.parameters,
        kernel.launch.grid,
        captured.host.block,
        device,
        kernel.occupancy,
        kernel.shared_bytes,
    )
    kernel = replace(kernel, demand=asked)
    return replace(kernel, model=model(kernel, device))


def _guesses(kernels: Sequence[KernelAnalysis]) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(guess for k in kernels if k.demand is not None for guess in k.demand.guesses)
    )


def _describe(launch: Launch, compiled: Compiled, device: Device) -> KernelAnalysis:
    launch = replace(launch, num_warps=compiled.num_warps or launch.num_warps)
    told = KernelAnalysis(
        launch,
        compiled.registers,
        compiled.spills,
        compiled.shared_bytes,
        tensor_cores=compiled.tensor_cores,
        compile_s=compiled.seconds,
        error=compiled.error,
        instructions=compiled.instructions,
    )
    if compiled.error is not None or compiled.registers is None or compiled.shared_bytes is None:
        return told
    try:
        resident = occupancy(
            device,
            compiled.registers,
            compiled.shared_bytes,
            launch.num_warps,
            math.prod(launch.grid),
            launch.num_ctas,
        )
    except ValueError as error:
        return replace(told, error=str(error))
    return replace(told, occupancy=resident)
