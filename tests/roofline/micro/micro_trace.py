"""Micro problems as text, and their `Work`: all of a module's problems in one child process."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solkit.core import Work
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
        given = [part.strip() for part in self.inputs.split(";")]
        names = ", ".join(f"a{i}" for i in range(len(given)))
        body = self.body.replace("\n", "\n    ")
        return (
            f"{PRELUDE}\ndef inputs(device=DEV):\n    return [{', '.join(given)}]\n\n"
            f"def reference({names}):\n    {body}\n"
        )


LIMIT_S = 300


def works(problems: Sequence[Micro]) -> list[Work | str]:
    """Trace each problem as `solkit score` would, for an H100; of an error, its traceback."""
    from solkit import study

    study.warm_up()
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_trace_all, args=(sender, list(problems)))
    process.start()
    sender.close()
    found: list[Work | str] = []
    try:
        while len(found) < len(problems):
            if not receiver.poll(LIMIT_S):
                raise TimeoutError(f"{problems[len(found)]} took more than {LIMIT_S} s")
            found.append(receiver.recv())
    finally:
        process.kill()
        process.join()
    return found


def _trace_all(sender: Any, problems: list[Micro]) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import torch

    from solkit import study

    torch.set_num_threads(1)
    device = devices.find("h100")
    study.fake(device)
    study.fake = lambda _: None  # once is enough, and takes longer than a trace
    with tempfile.TemporaryDirectory() as folder:
        for number, problem in enumerate(problems):
            path = Path(folder) / f"micro_{number}.py"
            path.write_text(problem.source, encoding="utf-8")
            try:
                answer = study.study(str(path), None, device, None, {}, False, 1).cases[0].work
            except BaseException:
                answer = traceback.format_exc()
            sender.send(answer)
