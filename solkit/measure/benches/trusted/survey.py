"""What is known of a kernel before it runs, and compiling ahead: in processes with no GPU.

These functions run in forks of a server that has torch and triton loaded and believes in a GPU that
is not there; `solkit.measure.benches.trusted.ahead` calls them. Each writes its answer to a file,
since the code of a kernel, and the compiler, may end the process.
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
from functools import partial
from pathlib import Path
from typing import Any

from solkit import kernelfiles
from solkit.adapters import fake_cuda, triton_compiler
from solkit.adapters.fake_triton import CapturedLaunch
from solkit.analysis import cuda, worker
from solkit.analysis.facts import extension_facts, launch_facts
from solkit.analysis.problem import problem_case
from solkit.analysis.triton.capture import capture
from solkit.analysis.triton.compiling import compile_all
from solkit.core import Case, Device, Facts, Params
from solkit.datasets.facts import facts_to_json
from solkit.kernelfiles.seeding import seeded_workload
from solkit.processes.faults import is_machine_fault
from solkit.roofline.bound import bound

__all__ = ["BoundFacts", "compile_ahead", "survey_bound", "survey_space", "warm_up"]

_MOST_TEXT = 500
_MOST_LISTED = 20_000  # what a chooser weighs in a second; the largest shipped space has 8,400
_NICENESS = 10
_FOLLOWING_S = 5.0  # of a launch: most take 0.1 s, reading their machine code 0.3 s
_EXTENSION_S = 15.0  # its kernels are compiled again, by NVRTC


@dataclass(frozen=True)
class BoundFacts:
    """The bound of a problem: fields of `Outcome` of the same names."""

    bound_ms: float
    hard_bound_ms: float
    limiter: str
    precision: str
    operations: Mapping[str, int]
    read_bytes: int
    write_bytes: int


def warm_up() -> None:
    """Load and compute what most kernel files need, so that forked children have it.

    The imports of Inductor's files take a second each time.
    """
    worker.warm_up()
    importlib.import_module("torch._inductor.runtime.triton_helpers")


def survey_space(path: str, device: Device, answer: str) -> None:
    """Write each shape of a file with its valid configurations and the default one.

    Of a space with more than `_MOST_LISTED` points so many are drawn.
    """
    _give_way()
    worker.fake(device)
    with fake_cuda.fake_tensors():
        loaded = kernelfiles.load(path)
    candidate, problem = loaded.description.candidate, loaded.description.problem
    assert candidate is not None
    found: list[dict[str, Any]] = []
    for shape in problem.shapes:
        space = loaded.space(shape)
        points = space.walk() if space.size <= _MOST_LISTED else space.shuffled(0)
        valid = list(itertools.islice(points, _MOST_LISTED))
        default = {n: candidate.params[n] for n in space.values if n in candidate.params}
        found.append({"shape": {**problem.sizes, **shape}, "default": default, "valid": valid})
    Path(answer).write_text(json.dumps(found), encoding="utf-8")


def survey_bound(
    path: str, reference: str | None, shape: Params, device: Device, answer: str
) -> None:
    """Write all sizes of a shape with its bound; if it cannot be traced, with the reason."""
    _give_way()
    worker.fake(device)
    with fake_cuda.fake_tensors():
        loaded = kernelfiles.load(path, reference)
        found: dict[str, Any] = {"shape": {**loaded.description.problem.sizes, **shape}}
        try:
            found |= asdict(_bound(problem_case(loaded, shape, {}, None), device))
        except Exception as error:  # a reference may raise anything: its rows have no bound
            found["error"] = f"{type(error).__name__}: {error}"[:_MOST_TEXT]
    Path(answer).write_text(json.dumps(found), encoding="utf-8")


def _bound(case: Case, device: Device) -> BoundFacts:
    least = bound(case.work, device, tolerance=case.tolerance)
    return BoundFacts(
        least.time_ms,
        least.at.hard_ms,
        least.limiter,
        least.precision,
        dict(least.flops_by_pipe),
        case.work.dram_read_bytes,
        case.work.dram_write_bytes,
    )


def compile_ahead(
    path: str,
    reference: str | None,
    shape: Params,
    choices: Sequence[Params],
    limit_s: float,
    device: Device,
    answer: str,
) -> None:
    """Compile some configurations into Triton's cache; writes a line for each when it is done.

    Torch extensions that they load are built, or found built, in torch's folder of extensions.

    A line holds the seconds that it took; why it does not compile, empty if it does; the facts of
    its launches (`facts_to_json`), empty if they are not known; and whether the machine failed,
    for which the whole output of the compiler is searched. One that takes longer than `limit_s` to
    compile ends the process by SIGALRM.
    """
    _give_way()
    worker.fake(device)
    with (
        Path(answer).open("a", encoding="utf-8") as file,
        fake_cuda.fake_tensors(),
        fake_cuda.building_extensions(),
    ):
        loaded = kernelfiles.load(path, reference)
        for params in choices:
            start = time.perf_counter()
            with _ended_after(limit_s), cuda.recording() as extensions:
                captured, error, log = _compile(loaded, shape, params, device)
            seconds = time.perf_counter() - start
            facts = "" if error else _facts(captured, extensions.launches, device)
            told = seconds, error[:_MOST_TEXT], facts, is_machine_fault(log)
            file.write(json.dumps(told) + "\n")
            file.flush()


def _give_way() -> None:
    """Leave the cores to the process that times: its launches must not wait."""
    os.nice(max(_NICENESS - os.nice(0), 0))


def _compile(
    loaded: kernelfiles.LoadedKernel, shape: Params, params: Params, device: Device
) -> tuple[Sequence[CapturedLaunch], str, str]:
    """What a configuration launches; why it does not compile, in short and in full."""
    try:
        launches = capture(seeded_workload(loaded, shape, params), params).launches
    except Exception as error:  # whatever a launcher may raise on tensors that hold nothing
        if isinstance(error.__cause__, fake_cuda.BuildError):
            return (), str(error.__cause__), error.__cause__.log
        return (), "", ""  # it is tried live
    for launch in launches:
        compiled = triton_compiler.fill_cache(launch.kernel, device)
        if compiled.error is not None:
            return (), compiled.error, compiled.error
    return launches, "", ""


def _facts(
    captured: Sequence[CapturedLaunch], extensions: Sequence[cuda.CudaLaunch], device: Device
) -> str:
    """The facts of all launches; empty if some took too long to follow, or are not known."""
    found: list[tuple[Facts, float]] = []
    unknown: tuple[str, ...] = ()
    try:
        with _interrupted_after(_FOLLOWING_S * len(captured)):
            found += launch_facts(captured, partial(compile_all, device=device), device)
        with _interrupted_after(_EXTENSION_S):
            extended, unknown = extension_facts(extensions, device)
    except TimeoutError:
        return ""
    known = [facts for facts, _ in (*found, *extended)]
    return facts_to_json(known) if known and not unknown else ""


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
