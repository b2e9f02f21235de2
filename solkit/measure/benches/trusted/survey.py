"""Survey kernels before they run, and compile ahead, in processes without a GPU.

These functions run in forks of a server that has torch and triton loaded and fakes a GPU;
`solkit.measure.benches.trusted.precompile` calls them. Each writes its answer to a file, since the
code of a kernel, or the compiler, may end the process.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from solkit import kernelfiles
from solkit.adapters import fake_cuda, triton_compiler
from solkit.adapters.launch_recording import Choice
from solkit.analysis import cuda, library, warming, worker
from solkit.analysis.facts import extension_facts, launch_facts
from solkit.analysis.problem import problem_case
from solkit.analysis.triton.capture import Captured, capture
from solkit.analysis.triton.compiling import compile_all
from solkit.analysis.triton.feasible_configs import passed_over
from solkit.core import Case, Deployment, Depth, Device, Facts, Params
from solkit.datasets.facts import facts_to_json
from solkit.kernelfiles.seeding import seeded_workload
from solkit.measure.benches.trusted.timing import RESIDENT
from solkit.measure.timing.protocols import as_deployed
from solkit.processes.host import is_machine_fault
from solkit.processes.priority import lower_priority
from solkit.roofline.cases import bound_of_case, deployed_protocol
from solkit.spans import span

_MOST_TEXT = 500
_MOST_LISTED = 20_000  # a chooser weighs them in a second; the largest shipped space has 8,400
_FOLLOWING_S = 5.0  # of a launch: most take 0.1 s, reading their machine code 0.3 s
_EXTENSION_S = 15.0  # its kernels are compiled again, by NVRTC


def warm_up() -> None:
    """Load and compute what most kernel files need, so that forked children have it."""
    warming.warm_up()  # Inductor's imports would take a second each time
    importlib.import_module("torch._inductor.runtime.triton_helpers")


def load_packages(path: str, reference: str | None, device: Device) -> None:
    """Load a kernel file, so that forks find the packages imported that it needs."""
    lower_priority()
    worker.fake_device(device)
    with fake_cuda.fake_tensors():
        kernelfiles.load(path, reference)


def survey_space(path: str, device: Device, answer: str) -> None:
    """Write each shape of a file with its valid configurations and the default one.

    From a space with more than `_MOST_LISTED` points, that many are drawn.
    """
    lower_priority()
    worker.fake_device(device)
    with fake_cuda.fake_tensors():
        loaded = kernelfiles.load(path)
    candidate, problem = loaded.description.candidate, loaded.description.problem
    assert candidate is not None
    rows: list[dict[str, Any]] = []
    for shape in problem.shapes:
        space = loaded.space(shape)
        points = space.walk() if space.size <= _MOST_LISTED else space.shuffled(0)
        valid = list(itertools.islice(points, _MOST_LISTED))
        default = {n: candidate.params[n] for n in space.values if n in candidate.params}
        rows.append({"shape": {**problem.sizes, **shape}, "default": default, "valid": valid})
    Path(answer).write_text(json.dumps(rows), encoding="utf-8")


def survey_bound(
    path: str, reference: str | None, shape: Params, device: Device, answer: str
) -> None:
    """Write all sizes of a shape with its bound, or with the reason why there is none."""
    lower_priority()
    worker.fake_device(device)
    with fake_cuda.fake_tensors():
        loaded = kernelfiles.load(path, reference)
        row: dict[str, Any] = {"shape": {**loaded.description.problem.sizes, **shape}}
        try:
            row |= _deployed_fields(loaded.deployment(shape), device)
            row |= _bound_fields(problem_case(loaded, shape, {}, None), device)
        except Exception as error:  # a reference may raise anything: its rows have no bound
            row["error"] = f"{type(error).__name__}: {error}"[:_MOST_TEXT]
    Path(answer).write_text(json.dumps(row), encoding="utf-8")


def _deployed_fields(deployed: Deployment | None, device: Device) -> dict[str, Any]:
    """Return how calls are timed, as fields of `Outcome`, and the tensors that L2 holds then."""
    if deployed is None:
        return {}
    l2, launched = deployed.l2(device.l2_bytes), deployed.launched()
    protocol = as_deployed(l2, launched).name
    resident = list(deployed.resident(device.l2_bytes))
    return {"protocol": protocol, "l2": l2, "launched": launched, RESIDENT: resident}


def _bound_fields(case: Case, device: Device) -> dict[str, Any]:
    """Return the bound of a problem, as fields of `Outcome`."""
    least = bound_of_case(case, device, "tolerance", deployed_protocol(case, device))
    return {
        "bound_ms": least.time_ms,
        "hard_bound_ms": least.at.hard_ms,
        "hard_evidence": least.hard_evidence,
        "limiter": least.limiter,
        "precision": least.precision,
        "operations": dict(least.flops_by_pipe),
        "read_bytes": case.work.dram_read_bytes,
        "write_bytes": case.work.dram_write_bytes,
    }


def compile_ahead(
    path: str,
    reference: str | None,
    shape: Params,
    choices: Sequence[Params],
    limit_s: float,
    device: Device,
    answer: str,
    wants_facts: bool = True,
) -> None:
    """Compile configurations into Triton's cache; writes a line when each is done.

    Torch extensions are built in torch's folder of extensions, unless they are there.

    A line holds the seconds that it took; the error, empty if it compiles; the facts of its
    launches (`facts_to_json`), empty if unknown; and whether the machine failed, according to the
    compiler's whole output. One that takes longer than `limit_s` ends the process by SIGALRM.
    """
    lower_priority()
    worker.fake_device(device)
    with (
        Path(answer).open("a", encoding="utf-8") as file,
        fake_cuda.fake_tensors(),
        fake_cuda.building_extensions(),
    ):
        loaded = kernelfiles.load(path, reference)
        for params in choices:
            start = time.perf_counter()
            # the process ends, within a pass of the compiler too
            with (
                span("compiling", "compiler"),
                _alarm_after(limit_s, signal.SIG_DFL),
                cuda.recording() as extensions,
            ):
                captured, error, log = _compile_configuration(
                    loaded, shape, params, device, extensions
                )
            seconds = time.perf_counter() - start
            traced = captured if wants_facts else None
            facts = "" if traced is None else _collect_facts(traced, extensions.launches, device)
            row = seconds, error[:_MOST_TEXT], facts, is_machine_fault(log)
            file.write(json.dumps(row) + "\n")
            file.flush()


def _compile_configuration(
    loaded: kernelfiles.LoadedKernel,
    shape: Params,
    params: Params,
    device: Device,
    extensions: cuda.CudaRecording,
) -> tuple[Captured | None, str, str]:
    """Return a configuration's launches, if known; its compile error, in short and in full."""
    skipped: frozenset[Choice] = frozenset()
    while True:
        try:
            workload = seeded_workload(loaded, shape, params)
            captured = capture(workload, params, extensions=extensions, skipped=skipped)
        except Exception as error:  # a launcher may raise anything on fake tensors
            if isinstance(error.__cause__, fake_cuda.BuildError):
                return None, str(error.__cause__), error.__cause__.log
            return None, "", ""  # it is tried live
        kernels = {id(launch.kernel): launch.kernel for launch in captured.launches}
        compiled = {
            at: triton_compiler.fill_cache(kernel, device) for at, kernel in kernels.items()
        }
        more = passed_over(captured.launches, compiled) - skipped
        skipped |= more
        if not more:
            why = next(
                (result.error for result in compiled.values() if result.error is not None), ""
            )
            return (None, why, why) if why else (captured, "", "")


def _collect_facts(
    captured: Captured, extensions: Sequence[cuda.CudaLaunch], device: Device
) -> str:
    """Return the facts of all launches; empty if any took too long to follow, or is unknown."""
    followed: list[tuple[Facts, float]] = []
    unknown: tuple[str, ...] = ()
    try:
        with _alarm_after(_FOLLOWING_S * len(captured.launches), _raise_timeout):
            followed += launch_facts(captured.launches, partial(compile_all, device=device), device)
        with _alarm_after(_EXTENSION_S, _raise_timeout):
            extended, unknown, _ = extension_facts(extensions, device)
    except TimeoutError:
        return ""
    own = [facts for facts, _ in (*followed, *extended)]
    merged = library.with_operators(own, captured.library, device, Depth.COMPILED, lambda row: row)
    return facts_to_json(merged) if merged and not unknown else ""


@contextlib.contextmanager
def _alarm_after(seconds: float, handler: Callable[..., None] | signal.Handlers) -> Iterator[None]:
    """Call the handler if the block takes longer; the default one ends the process."""
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _raise_timeout(*_: object) -> None:
    raise TimeoutError
