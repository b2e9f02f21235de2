"""Reports to show, and the command line run in this process."""

from __future__ import annotations

import contextlib
import io
import types
from pathlib import Path

import pytest

from solkit import cli
from solkit.core import (
    Analysis,
    AnalysisStatus,
    BestAlgorithm,
    Bound,
    BoundTimes,
    Candidate,
    Ceiling,
    ClockKind,
    Device,
    KernelFile,
    Problem,
    Report,
    Resource,
    Result,
    SMLimits,
    Verdict,
    Work,
)

DRAM = {"dram": Ceiling(3.352e12, "B/s", 2619, "NVML")}
H100 = Device(
    "h100-sxm", "NVIDIA H100 80GB HBM3", "catalogue", (9, 0), 132, 1980.0, ClockKind.MAXIMUM,
    1830.0, 80 * 10**9, 50 * 2**20, SMLimits(2048, 32, 65536, 233472, 232448, 1024), DRAM, DRAM,
)  # fmt: skip
NOT_MEASURED = Result(
    {"M": 4096}, {}, Verdict.NOT_MEASURED, Work({}, {}, 64, 64, 64, 64),
    Bound(0.02, "dram", (Resource("dram", 128, "B", 3.352e12, "NVML", 0.02),), {}, "tolerance", (),
          BoundTimes(0.02, 0.01, 0.02)),
    Analysis(AnalysisStatus.COMPLETE), best=BestAlgorithm(0.02, 0.02),
)  # fmt: skip
"""It has its best algorithm: commands that show it need not search for one."""


def report_of(*results, path="softmax.py"):
    """A report of a kernel file that holds its problem and its candidate."""
    problem = Problem(Path(path).stem, path, "native", "reference", {"M": 4096}, ({},))
    file = KernelFile(problem, Candidate("kernel", path, {}))
    return Report({"solkit": "0.1.0"}, file, H100, results or (NOT_MEASURED,))


def solkit(*arguments):
    """Run the command line in this process: its exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    said = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with said[0], said[1], pytest.raises(SystemExit) as outcome:
        cli.app([str(argument) for argument in arguments])
    return types.SimpleNamespace(
        exit_code=outcome.value.code or 0, stdout=out.getvalue(), stderr=err.getvalue()
    )
