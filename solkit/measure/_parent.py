"""The caller's side of a measurement: no torch here."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import solkit.errors
from solkit.core import Tolerance, Value, Verdict
from solkit.errors import SolkitError, WorkerError
from solkit.measure._process import Ended, python, supervise
from solkit.measure.messages import Outcome, Request, decode, encode

__all__ = ["is_available", "measure", "run"]

_QUOTED_LINES = 30


def measure(
    path: str,
    shape: Mapping[str, Value],
    params: Mapping[str, Value],
    *,
    reference: str | None = None,
    tolerance: Tolerance | None = None,
    gpu_index: int = 0,
    time_limit_s: float = 120.0,
    seed: int = 0,
) -> Outcome:
    """Check a candidate against its reference and time both, in a process of their own.

    Args:
        path: the kernel file.
        shape: sizes that override the file's defaults.
        params: the candidate's tuning parameters.
        reference: the file with the reference, where `path` lacks one.
        tolerance: instead of the file's own, or of the defaults by dtype
            (`solkit.measure.compare.default_tolerance`).
        gpu_index: which GPU: a place in ``CUDA_VISIBLE_DEVICES`` where that is set, else NVML's
            index (PCI bus order).
        time_limit_s: seconds for everything, from starting Python to the last sample.
        seed: of the inputs that are timed; correctness is checked on ``seed + 1`` as well.

    Raises:
        InputError: the kernel file, the shape or the parameters are at fault.
        UnsupportedError: torch sees no CUDA device, or the inputs do not fit into its memory.
        WorkerError: SolKit's own part failed.
    """
    request = Request(
        path, reference, dict(shape), dict(params), tolerance, time_limit_s, seed, "cuda"
    )
    return run(request, gpu_index)


def is_available() -> bool:
    """Whether there is a GPU to measure on: NVML sees one and the environment hides it not."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return False
    import pynvml  # 60 ms, and not wanted by `import solkit`

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return False
    try:
        return int(pynvml.nvmlDeviceGetCount()) > 0
    finally:
        pynvml.nvmlShutdown()


def run(request: Request, gpu_index: int = 0) -> Outcome:
    """Have a request answered by a fresh process; raises as `measure` does."""
    env = _environment(gpu_index)
    return _conclude(supervise(_command(), encode(request), request.time_limit_s, env), request)


def _command() -> list[str]:
    """The measuring process: the kernel file finds the modules that the caller would."""
    return python(
        "from solkit.measure._child import _main; "
        f"sys.path[:] = {sys.path!r}; _main(int(sys.argv[1]))"
    )


def _environment(gpu_index: int) -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": root if not inherited else os.pathsep.join([root, inherited]),
        "PYTHONUNBUFFERED": "1",  # the last prints before a crash
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # NVML's order
        "CUDA_VISIBLE_DEVICES": _visible(os.environ.get("CUDA_VISIBLE_DEVICES"), gpu_index),
        "KINETO_LOG_LEVEL": "99",  # the profiler's chatter
    }


def _visible(inherited: str | None, gpu_index: int) -> str:
    """The one GPU that the child may see."""
    if inherited is None:
        return str(gpu_index)
    listed = [name.strip() for name in inherited.split(",") if name.strip()]
    return listed[gpu_index] if gpu_index < len(listed) else ""


def _conclude(ended: Ended, request: Request) -> Outcome:
    """The outcome that a child answered, or that its end amounts to."""
    stage = None
    for message in _messages(ended.answer):
        if "outcome" in message:
            return _decode_outcome(message["outcome"])
        if "error" in message:
            raise _error(message["error"], message["args"])
        stage = message["stage"]
    printed = tuple(ended.printed.splitlines()[-_QUOTED_LINES:])
    if ended.timed_out:
        what = f"{stage or 'starting'}: killed after {request.time_limit_s:g} s"
        return Outcome(Verdict.TIMED_OUT, (what, *printed), None, None)
    if stage is None:
        raise WorkerError("\n".join(("the measuring process did not start:", *printed)))
    return Outcome(Verdict.CRASHED, (f"{stage}: {_end(ended.returncode)}", *printed), None, None)


def _messages(answer: str) -> list[dict[str, Any]]:
    lines = answer.split("\n")[:-1]  # what follows the last newline is empty, or was cut off
    try:
        return [dict(json.loads(line)) for line in lines]
    except (TypeError, ValueError) as error:
        raise WorkerError(f"the measuring process answered nonsense: {answer[-500:]}") from error


def _decode_outcome(message: str) -> Outcome:
    try:
        return decode(Outcome, message)
    except ValueError as error:
        raise WorkerError(f"the measuring process answered nonsense: {error}") from error


def _error(name: str, args: list[Any]) -> SolkitError:
    kind = getattr(solkit.errors, name)
    error: SolkitError = kind(*args)
    return error


def _end(returncode: int) -> str:
    if returncode < 0:
        return f"the process was killed by {signal.Signals(-returncode).name}"
    return f"the process exited by itself with code {returncode}"
