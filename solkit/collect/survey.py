"""What is known of a kernel before anything runs, and compiling ahead: in processes with no GPU.

The functions here run in forks of a server that has torch and triton loaded and believes in a GPU
that is not there; `solkit.collect.ahead` calls them. Each writes its answers to a file, since a
kernel's own code, and the compiler, may end the process.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from solkit import kernelfiles, study
from solkit.adapters import fake_cuda, triton_compiler
from solkit.adapters.fake_triton import CapturedLaunch
from solkit.analysis import analyse_extensions, capture, cuda, followed
from solkit.collect.faults import is_machine_fault
from solkit.collect.rows import timed_launch
from solkit.core import Device, KernelAnalysis, Value
from solkit.datasets.record import to_json
from solkit.kernelfiles._source import import_file
from solkit.roofline.bound import bound

__all__ = ["BoundFacts", "compile_ahead", "survey_bounds", "survey_space", "warm_up"]

Params = Mapping[str, Value]
_MOST_TEXT = 500
_NICENESS = 10
_FOLLOWING_S = 3.0  # most take 0.1 s
_EXTENSION_S = 15.0  # its kernels are compiled again, by NVRTC


@dataclass(frozen=True)
class BoundFacts:
    """What a row says of its problem's bound: fields of `TimedConfiguration` of the same names."""

    bound_ms: float
    hard_bound_ms: float
    limiter: str
    precision: str
    operations: Mapping[str, int]
    read_bytes: int
    write_bytes: int


def warm_up() -> None:
    """Load and compute now what most kernel files need, so that forked children find it there.

    What Inductor's files import takes a second, each time.
    """
    study.warm_up()
    importlib.import_module("torch._inductor.runtime.triton_helpers")


def survey_space(path: str, device: Device, answer: str) -> None:
    """Write each shape of a file with its valid configurations and the default one."""
    _give_way()
    study.fake(device)
    with fake_cuda.fake_tensors():
        loaded = kernelfiles.load(path)
    candidate, problem = loaded.description.candidate, loaded.description.problem
    assert candidate is not None
    valid = getattr(import_file(path), "valid", None)
    names, values = candidate.space.keys(), map(_distinct, candidate.space.values())
    every = [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*values)]
    default = {name: candidate.params[name] for name in names}
    found = []
    for shape in problem.shapes:
        sizes = {**problem.sizes, **shape}
        kept = [params for params in every if valid is None or valid(params, sizes)]
        found.append({"shape": sizes, "default": default, "valid": kept})
    Path(answer).write_text(json.dumps(found), encoding="utf-8")


def _distinct(values: Sequence[Value]) -> list[Value]:
    """Each value once; 1, 1.0 and True are three."""
    return list({(type(value), value): value for value in values}.values())


def survey_bounds(path: str, device: Device, answer: str) -> None:
    """Write the bound of each shape of a file; of one that cannot be traced, why."""
    _give_way()
    study.fake(device)
    found: list[dict[str, Any]] = []
    with fake_cuda.fake_tensors():
        loaded = kernelfiles.load(path)
        for shape in loaded.description.problem.shapes:
            try:
                case = study.case_of(loaded, device, shape, {}, False, 1, None)
            except Exception as error:  # whatever a reference may raise: its rows have no bound
                found.append({"error": f"{type(error).__name__}: {error}"[:_MOST_TEXT]})
                continue
            least = bound(case.work, device, tolerance=case.tolerance)
            facts = BoundFacts(
                least.time_ms,
                least.at.hard_ms,
                least.limiter,
                least.precision,
                dict(least.flops_by_pipe),
                case.work.dram_read_bytes,
                case.work.dram_write_bytes,
            )
            found.append(asdict(facts))
    Path(answer).write_text(json.dumps(found), encoding="utf-8")


def compile_ahead(
    path: str,
    shape: Params,
    choices: Sequence[Params],
    device: Device,
    limit_s: float,
    answer: str,
) -> None:
    """Have Triton's cache hold what some configurations launch; a line each as it is done.

    Extensions of torch's that they load are built, or found built, in torch's folder of them.

    A line holds the seconds it took, why it does not compile, which is empty where it does, the
    launches with what their code asks for (fields of `TimedLaunch`), and whether it was the machine
    that failed, which all that the compiler said tells and its first words may not. One that takes
    longer than `limit_s` to compile ends the process by SIGALRM.
    """
    _give_way()
    study.fake(device)
    with (
        Path(answer).open("a", encoding="utf-8") as file,
        fake_cuda.fake_tensors(),
        fake_cuda.building_extensions(),
    ):
        loaded = kernelfiles.load(path)
        for params in choices:
            start = time.perf_counter()
            with _ended_after(limit_s), cuda.recording() as extensions:
                captured, error, log = _compile(loaded, shape, params, device)
            seconds = time.perf_counter() - start
            launches: list[dict[str, Any]] = []
            if not error:
                launches += _followed(captured, device)
                launches += _followed_extensions(extensions.launches, device)
            told = seconds, error[:_MOST_TEXT], launches, is_machine_fault(log)
            file.write(json.dumps(told) + "\n")
            file.flush()


def _give_way() -> None:
    """To the process that times, where cores are fewer: what it launches must not wait for it."""
    os.nice(max(_NICENESS - os.nice(0), 0))


_Captured = Sequence[tuple[CapturedLaunch, triton_compiler.Compiled]]


def _compile(
    loaded: kernelfiles.LoadedKernel, shape: Params, params: Params, device: Device
) -> tuple[_Captured, str, str]:
    """What a configuration launches, as compiled; why it does not compile, in short and in full."""
    try:
        launches, _ = capture(loaded.workload(shape, params), params)
    except Exception as error:  # whatever a launcher may raise on tensors that hold nothing
        if isinstance(error.__cause__, fake_cuda.BuildError):
            return (), str(error.__cause__), error.__cause__.log
        return (), "", ""  # it is tried live
    told = []
    for launch in launches:
        compiled = triton_compiler.fill_cache(launch.kernel, device)
        if compiled.error is not None:
            return (), compiled.error, compiled.error
        told.append((launch, compiled))
    return told, "", ""


def _followed(captured: _Captured, device: Device) -> Iterator[dict[str, Any]]:
    """Each launch as a row keeps it; what takes too long to follow has no demand."""
    for launch, compiled in captured:
        with _interrupted_after(_FOLLOWING_S):
            kernel, _ = followed(launch, compiled, device)
        yield to_json(timed_launch(kernel, device))


def _followed_extensions(
    launches: Sequence[cuda.CudaLaunch], device: Device
) -> Iterator[dict[str, Any]]:
    """Those of CUDA C++; none where they are not known, which loses no more than that."""
    told: tuple[KernelAnalysis, ...] = ()
    with contextlib.suppress(TimeoutError), _interrupted_after(_EXTENSION_S):
        told, _ = analyse_extensions(launches, device)
    for kernel in told:
        yield to_json(timed_launch(kernel, device))


@contextlib.contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """The process ends if this takes longer, within a pass of the compiler as well."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@contextlib.contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    """`TimeoutError` is raised in what takes longer."""

    def interrupt(*_: object) -> None:
        raise TimeoutError(f"it took over {seconds:g} s")

    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
