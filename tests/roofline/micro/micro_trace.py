"""Micro problems as text, and their `Work`: all of a module's problems in one child process."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from solkit.core import Work
from solkit.processes import jobs as worker
from solkit.roofline import devices

# What inputs and body may use. R: random normal numbers; I: random integers in [0, high).
PRELUDE = """
import torch
import torch.nn as nn
import torch.nn.functional as F
bf16, f16, f32, f64 = torch.bfloat16, torch.float16, torch.float32, torch.float64
i8, u8, i32, i64 = torch.int8, torch.uint8, torch.int32, torch.int64
fp8 = torch.float8_e4m3fn
DEV = "cuda"
def R(*shape, d=f32): return torch.randn(*shape, dtype=d, device=DEV)
def I(high, *shape, d=i64): return torch.randint(0, high, shape, dtype=d, device=DEV)
def arange(*n, d=i64): return torch.arange(*n, dtype=d, device=DEV)
def tensor(values, d=i64): return torch.tensor(values, dtype=d, device=DEV)
def zeros(*shape, d=f32): return torch.zeros(*shape, dtype=d, device=DEV)
def ones(*shape, d=f32): return torch.ones(*shape, dtype=d, device=DEV)
def causal(n): return torch.ones(n, n, dtype=torch.bool, device=DEV).tril()
"""


@dataclass(frozen=True)
class Micro:
    """A problem: `inputs` are expressions parted by ``;``, the body calls them a0, a1, ..."""

    inputs: str
    body: str

    @property
    def source(self) -> str:
        outcome = [part.strip() for part in self.inputs.split(";")]
        names = ", ".join(f"a{i}" for i in range(len(outcome)))
        body = self.body.replace("\n", "\n    ")
        return (
            f"{PRELUDE}\ndef inputs(device=DEV):\n    return [{', '.join(outcome)}]\n\n"
            f"def reference({names}):\n    {body}\n"
        )


LIMIT_S = 300


def works(problems: Sequence[Micro]) -> list[Work | str]:
    """Trace each problem as `solkit score` would, for an H100; of an error, its traceback."""
    sources = [problem.source for problem in problems]
    result: list[Work | str] = worker.call("micro_trace:_trace_all", sources, timeout_s=LIMIT_S)
    return result


def _trace_all(sources: list[str]) -> list[Work | str]:
    from solkit import kernelfiles
    from solkit.adapters import fake_cuda
    from solkit.analysis.problem import problem_case  # imports triton
    from solkit.analysis.worker import fake_device

    fake_device(devices.find("h100"))
    results: list[Work | str] = []
    for number, source in enumerate(sources):
        path = Path(tempfile.gettempdir()) / f"micro_{number}.py"
        path.write_text(source, encoding="utf-8")
        try:
            with fake_cuda.fake_tensors():
                answer = problem_case(kernelfiles.load(str(path)), {}, {}, None).work
        except BaseException:
            answer = traceback.format_exc()
        results.append(answer)
    return results
