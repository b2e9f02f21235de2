"""What is known of a kernel before anything runs, and compiling ahead: in processes with no GPU.

The functions here run in forks of a server that has torch and triton loaded and believes in a GPU
that is not there; `solkit.collect.ahead` calls them. Each writes its answers to a file, since a
kernel's own code, and the compiler, may end the process.
"""

from __future__ import annotations

import itertools
import json
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from solkit import kernelfiles, study
from solkit.adapters import fake_cuda, triton_compiler
from solkit.analysis import capture
from solkit.core import Device, Value
from solkit.kernelfiles._source import import_file
from solkit.roofline.bound import bound

__all__ = ["BoundFacts", "compile_ahead", "survey_bounds", "survey_space"]

Params = Mapping[str, Value]
_MOST_TEXT = 500


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


def survey_space(path: str, device: Device, answer: str) -> None:
    """Write each shape of a file with its valid configurations and the default one."""
    study.fake(device)
    with fake_cuda.fake_tensors():
        loaded = kernelfiles.load(path)
    candidate, problem = loaded.description.candidate, loaded.description.problem
    assert candidate is not None
    valid = getattr(import_file(path), "valid", None)
    names, values = candidate.space.keys(), candidate.space.values()
    every = [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*values)]
    default = {name: candidate.params[name] for name in names}
    found = []
    for shape in problem.shapes:
        sizes = {**problem.sizes, **shape}
        kept = [params for params in every if valid is None or valid(params, sizes)]
        found.append({"shape": sizes, "default": default, "valid": kept})
    Path(answer).write_text(json.dumps(found), encoding="utf-8")


def survey_bounds(path: str, device: Device, answer: str) -> None:
    """Write the bound of each shape of a file; of one that cannot be traced, why."""
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

    A line holds the seconds it took and why it does not compile, which is empty where it does. One
    that takes longer than `limit_s` ends the process by SIGALRM.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    study.fake(device)
    with Path(answer).open("a", encoding="utf-8") as file, fake_cuda.fake_tensors():
        loaded = kernelfiles.load(path)
        for params in choices:
            start = time.perf_counter()
            signal.setitimer(signal.ITIMER_REAL, limit_s)  # ends the process, within a pass as well
            error = _compile(loaded, shape, params, device)
            file.write(json.dumps([time.perf_counter() - start, error[:_MOST_TEXT]]) + "\n")
            file.flush()


def _compile(
    loaded: kernelfiles.LoadedKernel, shape: Params, params: Params, device: Device
) -> str:
    try:
        launches, _ = capture(loaded.workload(shape, params), params)
    except (
        Exception
    ):  # whatever a launcher may raise on tensors that hold nothing: it is tried live
        return ""
    errors = (triton_compiler.fill_cache(launch.kernel, device) for launch in launches)
    return next((error for error in errors if error is not None), "")
